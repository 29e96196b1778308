"""At most one server at a time, started anew where other flags are needed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Self

from benchmarks.lab.real.backends import Backend
from benchmarks.real.engine import Engine

__all__ = ["Servers"]


class Servers:
    """The server with the flags that were asked for last; ended when the block is left."""

    def __init__(self, backend: Backend, say: Callable[[str], None]) -> None:
        self._backend, self._say = backend, say
        self._stack = contextlib.AsyncExitStack()
        self._now: tuple[tuple[str, ...], Engine] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get(self, flags: tuple[str, ...]) -> Engine:
        """The server with those flags: the one that runs, or a new one."""
        if self._now is not None and self._now[0] == flags:
            return self._now[1]
        await self.close()
        self._say(f"starting {self._backend.kind} {' '.join(flags)}".rstrip())
        engine = await self._stack.enter_async_context(self._backend.open(flags))
        self._now = flags, engine
        return engine

    async def close(self) -> None:
        """End it, if one runs."""
        self._now = None
        await self._stack.aclose()
