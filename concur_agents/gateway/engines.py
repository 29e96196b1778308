"""The engines behind the gateway: which there are, which agents are where, and who joins and leaves meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final

from concur_agents.engines.url import engine_url
from concur_agents.fleet import EngineLoad, Fleet, Refill
from concur_agents.gateway.patterns import AllowedEngines
from concur_agents.gateway.upstream import Upstream

__all__ = ["EngineRefusedError", "Engines", "Opener"]

_log = logging.getLogger("concur_agents.gateway")

Opener = Callable[[str], Sequence[Upstream]]
"""Makes the upstreams of an address: one, or one for each data-parallel rank."""

_FRESH_S = 0.5
"""Seconds for which what is known of the engines' loads is taken as it is."""
_MOST = 256
"""Upstreams at a time."""


class EngineRefusedError(Exception):
    """An engine may not join, or may not go.

    Args:
        status: HTTP's.
        message: why, for a person.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status: Final = status


class Engines:
    """All engines. Opened in the event loop that uses them.

    Args:
        upstreams: those there are from the beginning.
        clock: monotonic seconds.
        opener: makes the upstreams of an engine that joins; None: none may.
        allowed: which may.

    Raises:
        ValueError: there is none, or one twice.
    """

    def __init__(
        self,
        upstreams: Sequence[Upstream],
        clock: Callable[[], float],
        *,
        opener: Opener | None = None,
        allowed: AllowedEngines | None = None,
    ) -> None:
        if not upstreams:
            raise ValueError("upstreams must hold at least one engine")
        self.fleet: Final = Fleet()
        self._clock = clock
        self._opener = opener
        self._allowed = allowed or AllowedEngines()
        self._upstreams: dict[str, Upstream] = {}
        self._refills: dict[str, Refill] = {}
        self._refreshed: float | None = None
        self._changing = asyncio.Lock()
        for upstream in upstreams:
            if upstream.name in self._upstreams:
                raise ValueError(f"upstreams must not hold an engine twice, got {upstream.name}")
            self._add(upstream)

    def __iter__(self) -> Iterator[Upstream]:
        return iter(tuple(self._upstreams.values()))

    def __getitem__(self, name: str) -> Upstream:
        return self._upstreams[name]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All open, until the end."""
        async with contextlib.AsyncExitStack() as stack:
            for upstream in self:
                await stack.enter_async_context(upstream)
            stack.pop_all()
            try:
                yield
            finally:
                await asyncio.gather(*(upstream.__aexit__(None, None, None) for upstream in self))

    # --- where ---

    def refresh(self) -> None:
        """Have the fleet know what the engines are doing, unless it does."""
        now = self._clock()
        if self._refreshed is not None and now - self._refreshed < _FRESH_S:
            return
        self._refreshed = now
        for name, upstream in self._upstreams.items():
            stats = upstream.controller.stats()
            refill = self._refills[name]
            refill.see(stats.sample)
            self.fleet.report(name, EngineLoad.of(stats, refill.seconds))

    def any(self) -> Upstream:
        """For a request that is no agent's."""
        return self._upstreams[self.fleet.any()]

    def elsewhere(self, agent_id: str | None) -> Upstream | None:
        """Another one for an agent, or for nobody's request, whose own takes no connections; None if there is none."""
        name = self.fleet.elsewhere(agent_id)
        return None if name is None else self._upstreams[name]

    # --- who joins and leaves ---

    async def join(self, url: str) -> bool:
        """An engine takes agents from now on; False if it did already. One that is being drained stays.

        Raises:
            EngineRefusedError: it may not.
        """
        if self._opener is None or not self._allowed:
            raise EngineRefusedError(403, "engines may not join this gateway: start it with --allow-engines")
        try:
            base, allowed = str(engine_url(url)), self._allowed.allow(url)
        except ValueError as problem:
            raise EngineRefusedError(422, str(problem)) from problem
        known = self._named(base)
        if known:  # also one that was configured, and is not in the patterns
            for upstream in known:
                self.fleet.join(upstream.name)
            return False
        if not allowed:
            raise EngineRefusedError(403, f"{base} is none of the engines that may join (--allow-engines)")
        async with self._changing:
            if self._named(base):
                return False
            upstreams = self._opener(url)
            if len(self._upstreams) + len(upstreams) > _MOST:
                raise EngineRefusedError(409, f"there are {len(self._upstreams)} engines already, {_MOST} at most")
            for upstream in upstreams:
                await upstream.__aenter__()
                await upstream.probe()
                self._add(upstream)
        _log.info("engine %s joins", base)
        return True

    def drain(self, name: str) -> int:
        """The engine takes no new agents, and goes when its last one has. Returns how many it still has.

        Raises:
            EngineRefusedError: it may not, is not known, or is the last one.
        """
        if self._opener is None or not self._allowed:
            raise EngineRefusedError(403, "engines may not leave this gateway: start it with --allow-engines")
        with contextlib.suppress(ValueError):
            name = str(engine_url(name)) if name not in self._upstreams else name
        leaving = self._named(name)
        if not leaving:
            raise EngineRefusedError(404, f"engine {name!r:.80} is not known")
        if all(upstream in leaving or self.fleet.draining(upstream.name) for upstream in self):
            raise EngineRefusedError(409, f"{name} is the last engine: let another one join first")
        for upstream in leaving:
            if not self.fleet.draining(upstream.name):
                _log.info("engine %s is being drained of %d agents", upstream.name, upstream.agents)
            self.fleet.drain(upstream.name)
        return sum(upstream.agents for upstream in leaving)

    async def sweep(self) -> None:
        """See who is back, who has died unnoticed, and close who is drained. To be called about once a second."""
        await asyncio.gather(*(upstream.probe() for upstream in self if upstream.down or _is_suspect(upstream)))
        for upstream in self:
            if self.fleet.draining(upstream.name) and not upstream.agents and not upstream.requests:
                async with self._changing:
                    self._remove(upstream)
                    await upstream.__aexit__(None, None, None)
                _log.info("engine %s has left", upstream.name)

    # --- inside ---

    def _named(self, name: str) -> list[Upstream]:
        """By its own name, or by the address that several ranks share."""
        return [upstream for upstream in self if name in (upstream.name, upstream.url)]

    def _add(self, upstream: Upstream) -> None:
        name = upstream.name
        self._upstreams[name] = upstream
        self._refills[name] = Refill()
        self._refreshed = None
        self.fleet.join(name)
        self.fleet.mark(name, down=upstream.down)
        upstream.on_change = lambda down: self.fleet.mark(name, down=down)

    def _remove(self, upstream: Upstream) -> None:
        upstream.on_change = None
        del self._upstreams[upstream.name], self._refills[upstream.name]
        self.fleet.leave(upstream.name)


def _is_suspect(upstream: Upstream) -> bool:
    """Whether its metrics fail while agents wait for its seats: if it is dead, nobody may ever send it anything."""
    stats = upstream.controller.stats()
    return stats.problem is not None and stats.population.waiting > 0
