"""At most one engine at a time, started anew where it has to be another one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from contextlib import AbstractAsyncContextManager
from typing import Generic, Self, TypeVar

from benchmarks.engines.engine import Engine

__all__ = ["Servers"]

_Wanted = TypeVar("_Wanted", bound=Hashable)


class Servers(Generic[_Wanted]):
    """The engine that was asked for last; ended when the block is left.

    Args:
        start: starts or finds the engine that is wanted.
        starting: told of each that is started.
    """

    def __init__(
        self,
        start: Callable[[_Wanted], AbstractAsyncContextManager[Engine]],
        starting: Callable[[_Wanted], None] = lambda _: None,
    ) -> None:
        self._start, self._starting = start, starting
        self._stack = contextlib.AsyncExitStack()
        self._now: tuple[_Wanted, Engine] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get(self, wanted: _Wanted) -> Engine:
        """The engine that runs, if it is what is wanted, or a new one. Raises EngineError when it cannot be had."""
        if self._now is not None and self._now[0] == wanted:
            return self._now[1]
        await self.close()
        self._starting(wanted)
        engine = await self._stack.enter_async_context(self._start(wanted))
        self._now = wanted, engine
        return engine

    async def close(self) -> None:
        """End it, if one runs."""
        self._now = None
        await self._stack.aclose()
