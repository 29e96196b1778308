"""What an emulated engine offers to whoever drives it, of whichever kind it is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from concur_agents.emulator.request import Request
from concur_agents.emulator.results import StepResult

__all__ = ["CoreCache", "CoreConfig", "CoreStats", "EngineCore"]


class CoreConfig(Protocol):
    """The limits that every kind of engine has."""

    @property
    def max_total_tokens(self) -> int:
        """KV pool, in tokens, as the engine's own metrics say it."""
        ...

    @property
    def context_length(self) -> int:
        """Longest prompt plus output, in tokens."""
        ...

    @property
    def max_running_requests(self) -> int:
        """Most requests that run at once."""
        ...


class CoreCache(Protocol):
    """What every kind of cache counts."""

    @property
    def evicted_total(self) -> int:
        """Cached tokens thrown out for want of memory since the start."""
        ...


class CoreStats(Protocol):
    """What every kind of engine counts."""

    @property
    def retracted_requests(self) -> int:
        """Running requests thrown out for want of memory since the start (SGLang retracts, vLLM preempts)."""
        ...


class EngineCore(Protocol):
    """Queue, batch and cache of one engine, without a clock of its own. Every call returns at once."""

    clock_s: float
    """Engine seconds since the start; a driver may move it on while the engine idles."""

    @property
    def config(self) -> CoreConfig:
        """Sizes and limits."""
        ...

    @property
    def cache(self) -> CoreCache:
        """The KV pool."""
        ...

    @property
    def stats(self) -> CoreStats:
        """Counters since the start."""
        ...

    @property
    def idle(self) -> bool:
        """Whether there is nothing to run and nothing waiting."""
        ...

    @property
    def running(self) -> Sequence[Request]:
        """The requests in the running batch, in the order they joined."""
        ...

    @property
    def waiting(self) -> Collection[Request]:
        """The requests in the queue."""
        ...

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises:
            TooLongError: when its prompt can never fit.
            QueueFullError: when too many wait.
        """
        ...

    def abort(self, rid: str = "", *, everything: bool = False) -> list[Request]:
        """End the requests whose name starts with ``rid``, or all; returns those that have ended now."""
        ...

    def abort_request(self, request: Request) -> bool:
        """End exactly this request; True if it has ended now, False if a pass has ended it or is going to."""
        ...

    def output_len(self, request: Request) -> int:
        """Output tokens of a request up to now."""
        ...

    def step(self, *, limit_s: float = 0.0) -> StepResult:
        """One forward pass, or several decode steps in one go, beyond the first only up to ``limit_s`` seconds."""
        ...

    def flush(self) -> bool:
        """Empty the cache; False where the engine refuses because it is in use."""
        ...

    def restart(self) -> None:
        """Forget every request and the cache, as after a crash; counters and clock go on."""
        ...
