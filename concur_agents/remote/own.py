"""The agents of this process as they are, which is what a remote controller is told. Runs in the background loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from concur_agents.errors import ControllerClosedError, UnknownAgentError
from concur_agents.events import EventStream
from concur_agents.remote.link import GoneError, Link
from concur_agents.remote.listening import Listener
from concur_agents.remote.lives import Life, Line, RemoteRequest, Word
from concur_agents.remote.places import Places
from concur_agents.remote.protocol import (
    Finish,
    Operation,
    Park,
    Pause,
    RefusedError,
    Register,
    Registered,
    Transport,
    UnreachableError,
    Withdraw,
)
from concur_agents.remote.telling import Telling
from concur_agents.samples import AgentState, Outcome
from concur_agents.usage import TokenUsage

__all__ = ["OwnAgents"]

# Ended agents whose endings could not be told; of the rest the controller takes it that they were cancelled.
_ENDINGS = 10_000


class OwnAgents:
    """Every agent of this process, and the line to the controller.

    Args:
        transport: makes what carries operations there; in the loop.
        worker: this process's name.
        where: the controller's, for people.
        states: where each agent is, for other threads to look at.
        lease_s: see ``RemoteSeats``.
        patience_s: likewise.
    """

    def __init__(
        self,
        transport: Callable[[], Transport],
        worker: str,
        where: str,
        states: dict[str, AgentState],
        *,
        lease_s: float | None,
        patience_s: float,
    ) -> None:
        self._make_transport = transport
        self._worker: Final = worker
        self._where = where
        self._states = states
        self.engines: Final = Places()
        self._lease_s, self._patience_s = lease_s, patience_s
        self._closed = False
        self._lives: dict[str, Life] = {}
        self._lines: dict[str, Line] = {}
        self._ended: deque[tuple[str, Outcome]] = deque(maxlen=_ENDINGS)
        self._have_parents = False

    def connect(self) -> None:
        """Look for the controller. First of all."""
        self._transport = self._make_transport()
        self._link = Link(
            self._transport,
            self._worker,
            self._where,
            lease_s=self._lease_s,
            patience_s=self._patience_s,
            snapshot=self._snapshot,
            joined=self._joined,
            broken=self._broken,
        )
        self._telling = Telling(self, self._link)
        self._running = asyncio.get_running_loop().create_task(self._link.run())

    # --- what agents do ---

    def entered(self, agent_id: str) -> None:
        """The agent's context was opened."""
        life = self._life(agent_id)
        life.entered, life.suspended = True, False

    def left(self, agent_id: str, outcome: Outcome | None) -> None:
        """It was closed; with None the agent goes on in a later one."""
        life = self._lives.get(agent_id)
        if life is None:
            return
        life.entered = False
        if outcome is not None:
            self._end(life, outcome)
        elif life.steps:
            life.suspended = True
            self._boundary(life, park=True)
        else:
            self._end(life, Outcome.CANCELLED)  # nothing to go on with

    def requested(self, request: RemoteRequest) -> None:
        """Somebody asks for an agent's next generation."""
        if self._closed:
            _fail(request, _closed(request.agent_id))
            return
        life = request.life = self._life(request.agent_id)
        life.parent = life.parent or request.parent
        if request.age_s > 0 and not life.known:
            life.elsewhere = True
            life.born = min(life.born, time.monotonic() - request.age_s)
        life.suspended = False
        self._have_parents |= life.parent is not None
        if life.generating:
            self._grant(life, request)
            return
        life.waiting.append(request)
        if not life.asking:
            life.asking = True
            self._say(life.line, Word(None, life))

    def withdrawn(self, request: RemoteRequest) -> None:
        """They do not any more; perhaps it was granted while they were leaving."""
        life = request.life
        if request.over or life is None:
            return
        if request.granted:
            request.over = True
            life.running.discard(request)
            if not life.running and self._lives.get(life.agent_id) is life:
                self._boundary(life)
        elif request in life.waiting:
            request.over = True
            life.waiting.remove(request)
            if not life.waiting and life.call is not None:
                life.call.cancel()

    def step_ended(self, request: RemoteRequest) -> None:
        """One step ended."""
        life = request.life
        if life is not None and request in life.running:
            self.withdrawn(request)

    def paused(self, agent_id: str) -> None:
        """The agent is at its boundary."""
        if (life := self._lives.get(agent_id)) is not None:
            self._boundary(life)

    def parked(self, agent_id: str) -> None:
        """The same, and its seat goes back."""
        if (life := self._lives.get(agent_id)) is not None:
            self._boundary(life, park=True)

    def finished(self, agent_id: str, outcome: Outcome) -> None:
        """It ended."""
        if (life := self._lives.get(agent_id)) is not None:
            self._end(life, outcome)

    def observed(self, agent_id: str, usage: TokenUsage, request: RemoteRequest | None) -> None:
        """Usage of the generation that runs."""
        life = self._lives.get(agent_id)
        if life is not None and life.generating and (request is None or request.life is life):
            life.usage = usage

    def refused(self, engine: str) -> None:
        """An engine took no connection."""
        self.engines.refused(engine, self._link)

    # --- what becomes of questions ---

    def granted(self, life: Life, *, known: bool) -> None:
        """All who wait may go on; with the controller's knowledge or without."""
        life.generating, life.parked, life.asking = True, False, False
        life.usage, life.seq, life.known = None, None, known
        life.steps += 1
        if not known:
            self.engines.choose(life, self._lives.values())
        self.engines.note(life)
        requests, life.waiting = life.waiting, []
        for request in requests:
            self._grant(life, request)

    def failed(self, life: Life, error: Exception) -> None:
        """None of them may."""
        life.known = False
        waiting, life.waiting = life.waiting, []
        for request in waiting:
            _fail(request, error)

    def given_up(self, life: Life, *, asked: bool) -> Withdraw | None:
        """Nobody waits any more: what to tell the controller."""
        life.asking, life.seq = False, None
        if self._closed or self._lives.get(life.agent_id) is not life:
            return None
        keep = life.entered or life.steps > 0
        if not keep:  # it leaves without having been there
            self._forget(life)
        return Withdraw(**self._of(life), keep=keep) if asked else None

    def ending_lost(self, message: Finish) -> None:
        """Nobody listens: told with the next registration."""
        self._ended.append((message.agent, message.outcome))

    def name_of(self, agent_id: str | None) -> str | None:
        """What the controller calls an agent, of ours or not."""
        life = None if agent_id is None else self._lives.get(agent_id)
        return agent_id if life is None else life.name

    # --- all of it ---

    async def asked(self, operation: Operation) -> dict[str, Any]:
        """The answer to what is no agent's, once all that was said before is told."""
        await self.told()
        await self._link.settled()
        try:
            answer = await self._link.say(operation)
        except GoneError:
            raise UnreachableError(f"the controller at {self._where} is gone: {self._link.problem}") from None
        return {name: value for name, value in answer.items() if name != "controller"}

    async def hear(self, stream: EventStream, begun: concurrent.futures.Future[None]) -> None:
        """Hand the controller's events on to a stream here, until cancelled; ``begun`` says from when on."""
        listener = Listener(stream, self._link, self.told)
        try:
            with contextlib.suppress(GoneError, RefusedError):  # it goes on trying, and says so
                await listener.begin()
        finally:
            begun.set_result(None)
        await listener.run()

    async def told(self) -> None:
        """Whatever is no question is told."""
        while True:
            speakers = [
                line.speaker
                for line in self._lines.values()
                if line.speaker is not None and any(word.message is not None for word in line.words)
            ]
            if not speakers:
                return
            await asyncio.wait(speakers, return_when=asyncio.FIRST_COMPLETED)

    async def close(self, patience_s: float) -> None:
        """Who waits is told; then everybody ends."""
        self._closed = True
        for life in self._lives.values():
            self.failed(life, _closed(life.agent_id))
            if life.call is not None:
                life.call.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s / 2):
                await self.told()
        self._running.cancel()
        await self._link.leave()
        await self._transport.aclose()

    # --- inside ---

    def _life(self, agent_id: str) -> Life:
        life = self._lives.get(agent_id)
        if life is None:
            line = self._lines.setdefault(agent_id, Line(agent_id))
            life = self._lives[agent_id] = Life(agent_id, line, time.monotonic())
        return life

    def _of(self, life: Life) -> dict[str, Any]:
        return {"agent": life.name, "worker": self._worker, "seq": self._link.next_seq()}

    def _grant(self, life: Life, request: RemoteRequest) -> None:
        request.granted = True
        if request.step:
            life.running.add(request)
        self._states[life.agent_id] = AgentState.GENERATING
        if not request.waiter.done():
            request.waiter.set_result(None)

    def _boundary(self, life: Life, *, park: bool = False) -> None:
        if not life.generating and not (park and life.steps):
            return
        usage = life.usage if life.generating else None
        life.generating, life.usage = False, None
        life.parked |= park
        life.running.clear()
        if usage is not None and usage.prompt is not None:
            life.context = usage.prompt + (usage.output or 0)
        if self._states.get(life.agent_id) is AgentState.GENERATING:
            self._states[life.agent_id] = AgentState.PARKED if park else AgentState.IN_TOOL
        if life.known:  # else it generated without control
            of = self._of(life)
            message = Park(**of, usage=usage, suspend=life.suspended) if park else Pause(**of, usage=usage)
            self._say(life.line, Word(message))

    def _end(self, life: Life, outcome: Outcome) -> None:
        agent_id = life.agent_id
        self._forget(life)
        usage, known = life.usage if life.generating else None, life.known or life.asked
        self.failed(life, UnknownAgentError(f"agent {agent_id!r} was finished while it waited for a seat"))
        if life.call is not None:
            life.call.cancel()
        if known:
            self._say(life.line, Word(Finish(**self._of(life), outcome=outcome, usage=usage)))
        elif life.line.speaker is None:
            self._lines.pop(agent_id, None)
        if self._have_parents:  # sub-agents end with it, as they do at the controller
            for child in [each for each in self._lives.values() if each.parent == agent_id and not each.entered]:
                if self._lives.get(child.agent_id) is child:
                    self._end(child, outcome)

    def _forget(self, life: Life) -> None:
        del self._lives[life.agent_id]
        self._states.pop(life.agent_id, None)
        self.engines.forget(life.agent_id)

    def _say(self, line: Line, word: Word) -> None:
        line.words.append(word)
        if line.speaker is None:
            self._lines[line.agent_id] = line
            line.speaker = asyncio.get_running_loop().create_task(self._speak(line))

    async def _speak(self, line: Line) -> None:
        """Say what is in a line, in order."""
        while line.words:
            await self._telling.say(line.words[0])
            line.words.popleft()
        line.speaker = None
        if line.agent_id not in self._lives:
            self._lines.pop(line.agent_id, None)

    # --- the link ---

    def _snapshot(self, seq: int) -> Register:
        self._broken()
        now = time.monotonic()
        there = [life for life in self._lives.values() if life.steps or life.waiting or life.asked]
        for life in there:
            life.known = life.asked = True  # what changes from now on has to be told
        untold = [ending for line in self._lines.values() for ending in line.endings()]
        return Register(
            worker=self._worker,
            lease_s=self._lease_s,
            seq=seq,
            agents=tuple(life.report(self.name_of(life.parent), now) for life in there),
            ended=(*self._ended, *untold),
        )

    def _joined(self, answer: Registered) -> None:
        self._ended.clear()
        self.engines.all, self.engines.known = answer.engines, True
        others = set(answer.taken)
        for life in [each for each in self._lives.values() if each.name in others]:
            life.known = False
            if life.suspended:
                self._forget(life)  # another process has gone on with it
            else:
                life.rename()

    def _broken(self) -> None:
        """Questions under way are void."""
        for life in self._lives.values():
            life.seq = None
            if life.call is not None:
                life.call.cancel()


def _closed(agent_id: str) -> ControllerClosedError:
    return ControllerClosedError(f"the controller was closed while agent {agent_id!r} waited for a seat")


def _fail(request: RemoteRequest, error: Exception) -> None:
    request.over = True
    if not request.waiter.done():
        request.waiter.set_exception(error)
