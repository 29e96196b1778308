"""Looks at the controller all through a run: who generates has a seat, and nobody's steps are forgotten."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import httpx

from benchmarks.chaos.executions import Execution
from benchmarks.chaos.shared.notes import Try, WorkerNotes
from benchmarks.chaos.shared.plan import Plan, worker_of

__all__ = ["Watch"]

_EVERY_S = 0.15
_TIMEOUT_S = 1.0
_LAG_S = 0.1
_SLACK = 2
"""Steps by which a look may be early or late."""


class Watch:
    """What is seen of a controller, beside what engine and workers note.

    Args:
        plan: of the run.
        url: the controller's.
        pids: of the workers.
        executions: all so far.
        notes: every worker's, so far.
    """

    def __init__(
        self,
        plan: Plan,
        url: str,
        pids: Sequence[int],
        executions: Callable[[], Iterable[Execution]],
        notes: Callable[[], Sequence[WorkerNotes]],
    ) -> None:
        names = [agent.agent_id for agent in plan.agents()]
        self._names = {agent.name: agent.agent_id for agent in plan.agents() if names.count(agent.agent_id) == 1}
        self._url = url
        self._pids = pids
        self._executions = executions
        self._notes = notes
        self._suspects: dict[Try, str] = {}
        """Tries that ran and had no seat at the last look."""
        self._seatless: dict[Try, str] = {}
        """And at the look before that."""
        self.forgotten: list[str] = []
        """Agents that had done more steps than the controller knew of."""
        self.looks = 0
        self.lags: list[float] = []
        """When this process itself was late, as all on the machine may have been."""

    async def run(self) -> None:
        """Until it is cancelled."""
        async with httpx.AsyncClient(base_url=self._url, trust_env=False, timeout=_TIMEOUT_S) as http:
            while True:
                due_s = time.monotonic() + _EVERY_S
                await asyncio.sleep(_EVERY_S)
                if time.monotonic() - due_s > _LAG_S:
                    self.lags.append(time.monotonic())
                with contextlib.suppress(httpx.HTTPError):
                    await self.look(http)

    def seatless(self) -> list[str]:
        """Agents that generated without a seat for longer than a look, though their worker was in control."""
        done = {each for notes in self._notes() for each in notes.done}
        return [what for each, what in self._seatless.items() if each in done]

    async def look(self, http: httpx.AsyncClient) -> None:
        """Once."""
        ran, before = self._running(), self._notes()
        answer = (await http.get("/concur/v1/agents")).raise_for_status().json()
        run, after = self._running(), self._notes()
        self.looks += 1
        agents = {each["agent_id"]: each for each in answer["agents"]}
        there = {each["worker"] for each in answer["agents"] if each["worker"] is not None}
        controlled = {
            number
            for number, pid in enumerate(self._pids)
            if any(_pid(worker) == pid for worker in there)
            and not any(len(notes[number].lost) > len(notes[number].back) for notes in (before, after))
        }
        suspects = {
            each: f"{each} ran and was {seen}"
            for each in ran & run
            if each[0] in self._names
            and worker_of(each[0]) in controlled
            and (seen := _state(agents, self._names[each[0]])) != "generating"
        }
        self._seatless |= {each: what for each, what in suspects.items() if each in self._suspects}
        self._suspects = suspects
        self.forgotten += self._forgotten(agents, before, controlled)

    def _forgotten(
        self, agents: Mapping[str, Any], notes: Sequence[WorkerNotes], controlled: set[int]
    ) -> Iterator[str]:
        for name, agent_id in self._names.items():
            seen = agents.get(agent_id)
            if seen is None or worker_of(name) not in controlled:
                continue
            steps = sum(done[0] == name for done in notes[worker_of(name)].done)
            if seen["steps"] < steps - _SLACK:
                yield f"{name} had done {steps} steps, and the controller knew of {seen['steps']}"

    def _running(self) -> set[Try]:
        return {(each.agent, each.step, each.attempt) for each in self._executions() if each.end_s is None}


def _state(agents: Mapping[str, Any], agent_id: str) -> str:
    return str(agents[agent_id]["state"]) if agent_id in agents else "unknown"


def _pid(worker: str) -> int:
    return int(worker.rsplit("-", 2)[1])
