"""The requests that decode together, with their progress kept lazily.

Every running request gains a token a step. So a step only counts itself; a request's own numbers are brought up to
date when somebody asks, and a heap knows at which step the next one ends. A decode step then costs the same for one
request and for thousands.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from concur_agents.emulator.request import Request

__all__ = ["DecodeBatch"]


class DecodeBatch:
    """Running requests in the order they joined."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.kv_tokens = 0
        """Tokens they hold in the pool together."""
        self._steps = 0
        self._ends: list[tuple[int, int, Request]] = []
        self._serial = 0

    def __len__(self) -> int:
        return len(self.requests)

    def join(self, request: Request) -> None:
        """A prefilled request starts to decode."""
        request.step_base = self._steps
        self._end_at(request, self._steps + (1 if request.abort_wanted else request.target - request.out))
        self.requests.append(request)
        self.kv_tokens += request.kv_tokens

    def advance(self, steps: int) -> None:
        """Everybody gains ``steps`` tokens."""
        self._steps += steps
        self.kv_tokens += steps * len(self.requests)

    def update(self, request: Request) -> None:
        """Bring ``out`` and ``kv_tokens`` of a request up to date; harmless for one that does not run."""
        if request.finish_step:
            passed = self._steps - request.step_base
            request.out += passed
            request.kv_tokens += passed
            request.step_base = self._steps

    def steps_left(self) -> int:
        """Steps until the next request ends; the batch must not be empty."""
        while not self._current(self._ends[0]):
            heapq.heappop(self._ends)
        return self._ends[0][0] - self._steps

    def end_next_step(self, request: Request) -> None:
        """Make a running request end with the next step."""
        if request.finish_step:
            self._end_at(request, self._steps + 1)

    def take_ended(self) -> Sequence[Request]:
        """Remove and return, in order, the requests whose last step is done."""
        due = set()
        while self._ends and (self._ends[0][0] <= self._steps or not self._current(self._ends[0])):
            entry = heapq.heappop(self._ends)
            if self._current(entry):
                due.add(entry[2])
        return self.take(lambda request: request in due) if due else ()

    def take(self, leaves: Callable[[Request], bool]) -> Sequence[Request]:
        """Remove and return, in order, the requests that ``leaves`` says."""
        gone = [request for request in self.requests if leaves(request)]
        self.requests = [request for request in self.requests if not leaves(request)]
        for request in gone:
            self.update(request)
            request.finish_step = 0
            self.kv_tokens -= request.kv_tokens
        return gone

    def _end_at(self, request: Request, step: int) -> None:
        request.finish_step = step
        self._serial += 1
        heapq.heappush(self._ends, (step, self._serial, request))

    def _current(self, entry: tuple[int, int, Request]) -> bool:
        """Whether the entry still says when its request ends; it may have left, or end earlier."""
        return entry[2].finish_step == entry[0]
