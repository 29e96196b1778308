"""The shared controller's side: what workers say is done once, and answered each time. Whatever carries it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

from concur_agents.errors import ControllerClosedError, LifecycleError, UnknownAgentError
from concur_agents.remote.book import SWEEP_S, Book, unknown_worker
from concur_agents.remote.codec import body_of, parse
from concur_agents.remote.controlled import Controlled, Several
from concur_agents.remote.feed import Feed
from concur_agents.remote.protocol import (
    Admit,
    Answer,
    Finish,
    Heartbeat,
    Kind,
    Leave,
    ListAgents,
    Observe,
    OfAgent,
    OneAgent,
    Operation,
    Park,
    Pause,
    ReadEvents,
    ReadHistory,
    ReadStats,
    Refused,
    RefusedError,
    Register,
    Registered,
    Resume,
    Withdraw,
    refusal,
)
from concur_agents.remote.values import to_json
from concur_agents.remote.workers import Held
from concur_agents.samples import AgentState, AgentView, Outcome

__all__ = ["Desk"]

_log = logging.getLogger("concur_agents.remote")

_ADMITTED = (AgentState.IN_TOOL, AgentState.PARKED, AgentState.RETURNING)


class Desk:
    """Answers the operations of :mod:`~concur_agents.remote.protocol`, within one event loop.

    Args:
        controller: a started ``Controller``; nobody else closes agents' contexts of the desk's.
        lease_s: seconds without a word after which a worker is taken to be gone; workers may ask for another. > 0.
        in_flight_s: seconds that an agent which generates then keeps its seat. >= 0.
        unnamed_s: the lease of an agent whose operations name no worker, and how long suspended agents wait for
            somebody to go on with them once their worker is gone. > 0.
        max_workers: at a time.
        max_agents: at a time.
        max_waiting: operations that wait at a time.
        clock: monotonic seconds.

    Raises:
        ValueError: one of them is out of range; names it and its value.
    """

    def __init__(
        self,
        controller: Controlled,
        *,
        lease_s: float = 15.0,
        in_flight_s: float = 600.0,
        unnamed_s: float = 900.0,
        max_workers: int = 10_000,
        max_agents: int = 100_000,
        max_waiting: int = 20_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        for name, value, least in (
            ("lease_s", lease_s, 0.1),
            ("in_flight_s", in_flight_s, 0),
            ("unnamed_s", unnamed_s, 0.1),
            ("max_workers", max_workers, 1),
            ("max_agents", max_agents, 1),
            ("max_waiting", max_waiting, 1),
        ):
            if not least <= value < math.inf:
                raise ValueError(f"{name} must be a finite number of at least {least:g}, got {value!r}")
        self.incarnation: Final = uuid.uuid4().hex
        """This controller's life: another one after a restart."""
        self._controller = controller
        self._several = controller if isinstance(controller, Several) else None
        self._limiter = controller.limiter
        self.book: Final = Book(
            self._limiter,
            self._several,
            lease_s=lease_s,
            in_flight_s=in_flight_s,
            unnamed_s=unnamed_s,
            max_workers=max_workers,
            max_agents=max_agents,
            clock=clock,
        )
        self._max_waiting, self._waiting = max_waiting, 0
        self._feed = Feed(lambda size: controller.events(size=size), clock)
        self._answers: dict[type[Operation], Callable[[Any], Any]] = {
            Heartbeat: self._heartbeat,
            Register: self._register,
            Leave: self._leave,
            Pause: self._pause,
            Park: self._park,
            Withdraw: self._withdraw,
            Finish: self._finish,
            Observe: self._observe,
            ListAgents: self._list,
            OneAgent: self._one,
            Refused: self._engine_refused,
            ReadStats: self._stats,
            ReadHistory: self._history,
        }

    async def handle(self, operation: str, body: object) -> dict[str, Any]:
        """The answer to one operation, in JSON values. Never raises Exception: a refusal is ``{"error": {...}}``.

        Cancelling it takes nothing back: a request for a seat stays, until it is withdrawn or its lease lapses.
        """
        try:
            answer = await self._answer(parse(operation, body))
        except RefusedError as refused:
            answer = refusal(refused.kind, refused.message)
        except ControllerClosedError as error:
            answer = refusal(Kind.CLOSED, str(error))
        except UnknownAgentError as error:
            answer = refusal(Kind.UNKNOWN_AGENT, str(error))
        except LifecycleError as error:
            answer = refusal(Kind.LIFECYCLE, str(error))
        except Exception as error:  # noqa: BLE001 - whoever asks must hear something, or waits in vain
            _log.exception("an operation could not be answered: %s", operation)
            answer = refusal(Kind.FAILED, f"{type(error).__name__}: {error}")
        return answer | {"controller": self.incarnation}

    async def watch(self) -> None:
        """Run until it is cancelled: whose lease has lapsed is gone. A task beside the desk."""
        while True:
            try:
                self.sweep()
            except Exception:  # noqa: BLE001 - one bad worker must not keep the others' leases for ever
                _log.exception("leases could not be looked through")
            await asyncio.sleep(SWEEP_S)

    def sweep(self) -> None:
        """Look whose lease has lapsed."""
        self.book.sweep()
        self._feed.tidy()

    # --- workers ---

    def _heartbeat(self, operation: Heartbeat) -> dict[str, Any]:
        return body_of(Registered(lease_s=self.book.known(operation.worker).lease_s))

    def _register(self, operation: Register) -> dict[str, Any]:
        worker, taken = self.book.register(operation)
        engines = () if self._several is None else self._several.all_engines
        return body_of(Registered(lease_s=worker.lease_s, taken=taken, engines=engines))

    def _leave(self, operation: Leave) -> dict[str, Any]:
        self.book.leave(operation.worker)
        return {}

    # --- what is said of an agent ---

    async def _answer(self, message: Operation) -> dict[str, Any]:
        if isinstance(message, Admit | Resume):
            held = self._ask(message)
            return body_of(self._where(message.agent) if held is None else await self._seated(held, message.wait_s))
        if isinstance(message, ReadEvents):
            with self._one_waits():
                return await self._feed.after(message.after, wait_s=message.wait_s, limit=message.limit)
        answer: dict[str, Any] = self._answers[type(message)](message)
        return answer

    def _ask(self, message: Admit | Resume) -> Held | None:
        """Ask for the agent's seat, once; None when the asker has gone on since."""
        worker = self.book.whose(message)
        held = self.book.own(message.agent, worker)
        if held is None:
            if worker.is_over(message.agent, message.seq):
                return None
            if isinstance(message, Resume):
                raise RefusedError(
                    Kind.UNKNOWN_AGENT,
                    f"agent {message.agent!r:.80} was never admitted, or has finished: admit it first",
                )
            held = self.book.open(message.agent, worker)
            if message.age_s > 0:  # its place in the queue is as if it had asked here
                self._limiter.restore([(_newcomer(message), message.age_s)])
        elif (message.seq is not None and message.seq < held.seq) or message.key in held.past:
            return None
        elif (message.seq is not None and message.seq == held.seq) or (
            message.key is not None and message.key == held.key
        ):
            return None if held.over else held
        elif isinstance(message, Admit):
            state = self._limiter.state(message.agent)
            if state in _ADMITTED and not self._limiter.is_new(message.agent):
                raise RefusedError(
                    Kind.LIFECYCLE,
                    f"agent {message.agent!r:.80} was admitted before and is {state}: resume it instead",
                )
        if message.seq is not None:
            held.seq = message.seq
        held.key, held.over, held.suspended = message.key, False, False
        if held.request is None:
            parent = message.parent if isinstance(message, Admit) else None
            held.request = request = self._limiter.request(message.agent, parent)
            if request.waiter is not None:
                loop = asyncio.get_running_loop()
                request.waiter.add_done_callback(lambda _: _tell(loop, held))
        return held

    async def _seated(self, held: Held, wait_s: float) -> Answer:
        """Whether the seat is there, within so many seconds."""
        until, worker = asyncio.get_running_loop().time() + wait_s, held.worker
        while True:
            request = held.request
            if worker.named and self.book.workers.get(worker.name) is not worker:
                raise unknown_worker(worker.name)  # its lease lapsed: its agent may live on, and registers again
            if self.book.held.get(held.agent) is not held:
                raise RefusedError(Kind.FINISHED, f"agent {held.agent!r:.80} was finished while it waited for a seat")
            if request is None:  # somebody came for it, or it was taken back
                return self._where(held.agent, granted=not held.over)
            try:
                if self._limiter.taken(request):
                    held.request = None
                    held.wake()
                    return self._where(held.agent, granted=True)
            except UnknownAgentError as error:
                self.book.forget(held)
                raise RefusedError(Kind.FINISHED, str(error)) from None
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                return self._where(held.agent)
            changed = held.changed
            try:
                with self._one_waits():
                    async with asyncio.timeout(left):
                        await changed.wait()
            except TimeoutError:
                until = 0.0  # a last look

    @contextlib.contextmanager
    def _one_waits(self) -> Iterator[None]:
        if self._waiting >= self._max_waiting:
            raise RefusedError(Kind.FULL, f"{self._max_waiting} operations wait at the controller")
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    def _pause(self, message: Pause) -> dict[str, Any]:
        return self._once(message, lambda held: self._boundary(held, message, self._limiter.pause))

    def _park(self, message: Park) -> dict[str, Any]:
        def park(held: Held) -> bool:
            changed = self._boundary(held, message, self._limiter.park)
            held.suspended = message.suspend
            return changed

        return self._once(message, park)

    def _boundary(self, held: Held, message: Pause | Park, act: Callable[[str], bool]) -> bool:
        if message.key is not None and message.key in held.past:
            return False  # said twice
        self._take_usage(held.agent, message)
        changed = act(held.agent)
        if self._limiter.state(held.agent) not in (AgentState.WAITING, AgentState.RETURNING):
            held.done()
        return changed

    def _withdraw(self, message: Withdraw) -> dict[str, Any]:
        def withdraw(held: Held) -> bool:
            if message.key is not None and message.key in held.past:
                return False
            waiting = held.request is not None
            if waiting:
                self.book.unask(held)
            elif self._limiter.state(held.agent) is AgentState.GENERATING:
                # The grant and the withdrawal crossed: its generation never began, or is over.
                self._limiter.pause(held.agent)
                held.done()
            new = self._limiter.is_new(held.agent) and not self._limiter.has_sub_agents(held.agent)
            if new and not message.keep:
                self.book.end(held, Outcome.CANCELLED)
            return waiting

        return self._once(message, withdraw)

    def _finish(self, message: Finish) -> dict[str, Any]:
        held = self.book.find(message.agent)
        if held is None:
            return body_of(Answer())
        if message.worker is not None:
            return self._once(message, lambda held: self._finished(held, message))
        return body_of(Answer(changed=self._finished(held, message)))  # anybody may say that an agent has ended

    def _finished(self, held: Held, message: Finish) -> bool:
        self._take_usage(held.agent, message)
        self.book.end(held, message.outcome)
        return True

    def _observe(self, message: Observe) -> dict[str, Any]:
        def observe(held: Held) -> bool:
            generates = self._limiter.state(held.agent) is AgentState.GENERATING
            self._take_usage(held.agent, message)
            return generates

        return self._once(message, observe)

    def _once(self, message: OfAgent, act: Callable[[Held], bool]) -> dict[str, Any]:
        """Do what a worker says of its agent; what it says twice is answered twice, and done once."""
        worker = self.book.whose(message)
        held = self.book.own(message.agent, worker)
        if held is None:
            if worker.is_over(message.agent, message.seq) or isinstance(message, Withdraw):
                return body_of(Answer())
            raise RefusedError(Kind.UNKNOWN_AGENT, f"agent {message.agent!r:.80} was never admitted, or has finished")
        if message.seq is not None:
            if message.seq <= held.seq:
                return held.answer if message.seq == held.seq else body_of(self._where(message.agent))
            held.seq = message.seq
        changed = act(held)
        held.answer = body_of(self._where(message.agent, changed=changed))
        return held.answer

    def _where(self, agent: str, *, granted: bool = False, changed: bool = False) -> Answer:
        engine = self._limiter.engine(agent) if granted else None
        return Answer(granted=granted, changed=changed, state=self._limiter.state(agent), engine=engine)

    def _take_usage(self, agent: str, message: Pause | Park | Finish | Observe) -> None:
        if message.usage is not None:
            self._limiter.observe(agent, message.usage)

    # --- engines ---

    def _engine_refused(self, message: Refused) -> dict[str, Any]:
        worker = self.book.known(message.worker)
        _log.warning("worker %r was refused a connection by engine %r", worker.name[:80], message.engine[:200])
        self._limiter.refused(message.engine)
        return {}

    # --- seeing ---

    def _stats(self, message: ReadStats) -> dict[str, Any]:
        several = self._several
        if several is None:
            return dict(to_json(self._controller.stats()))
        with _refused_values():
            if message.engine is not None:
                return dict(to_json(several.stats_of(message.engine)))
        by_engine = {engine: to_json(several.stats_of(engine)) for engine in several.all_engines}
        return {**to_json(several.stats()), "engines": by_engine}

    def _history(self, message: ReadHistory) -> dict[str, Any]:
        with _refused_values():
            changes = self._controller.history() if self._several is None else self._several.history(message.engine)
        return {"history": [to_json(each) for each in changes]}

    def _list(self, message: ListAgents) -> dict[str, Any]:
        views = self._limiter.views()
        page = views[message.offset : message.offset + message.limit]
        return {"total": len(views), "agents": [self._shown(view) for view in page]}

    def _one(self, message: OneAgent) -> dict[str, Any]:
        view = self._limiter.view(message.agent)
        if view is None:
            raise RefusedError(Kind.UNKNOWN_AGENT, f"agent {message.agent!r:.80} is not known, or has ended")
        return self._shown(view)

    def _shown(self, view: AgentView) -> dict[str, Any]:
        held = self.book.held.get(view.agent_id)
        worker = held.worker.name if held is not None and held.worker.named and held.until is None else None
        engine = self._limiter.engine(view.agent_id)
        return {**to_json(view), "worker": worker} | ({} if engine is None else {"engine": engine})


@contextlib.contextmanager
def _refused_values() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise RefusedError(Kind.INVALID, str(error)) from None


def _tell(loop: asyncio.AbstractEventLoop, held: Held) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(held.wake)


def _newcomer(message: Admit) -> AgentView:
    return AgentView(
        agent_id=message.agent,
        parent=message.parent,
        state=AgentState.WAITING,
        steps=0,
        context_tokens=None,
        waited_s=0.0,
    )
