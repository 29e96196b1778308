"""A server that does not keep or tell what it has cached is found out before anything is measured."""

from __future__ import annotations

import pytest

from benchmarks.engines.wire import EngineError
from benchmarks.lab.real.client import ClientError, Reply
from benchmarks.lab.real.warm import warm_up
from concur_agents import TokenUsage


class Engine:
    """Counts how often its cache is emptied."""

    speedup = 1.0

    def __init__(self) -> None:
        self.flushes = 0

    async def flush(self) -> None:
        self.flushes += 1


class Client:
    """Has all cached that it was asked before, less ``forgets`` of it; or fails."""

    def __init__(self, forgets: float | None = 0.0, error: str = "") -> None:
        self._forgets, self._error = forgets, error
        self._had: dict[str, int] = {}

    async def generate(self, name, prompt, planned) -> Reply:
        if self._error:
            raise ClientError(self._error)
        agent = name.rpartition("/")[0]
        cached = None if self._forgets is None else round(self._had.get(agent, 0) * (1 - self._forgets))
        self._had[agent] = len(prompt) + len(planned) - 1
        return Reply(TokenUsage(prompt=len(prompt), cached=cached, output=len(planned)), planned)

    async def update_weights(self, seconds) -> None:
        raise AssertionError(seconds)

    async def close(self) -> None:
        pass


async def test_a_server_that_keeps_what_it_had_is_left_with_an_empty_cache() -> None:
    engine = Engine()
    await warm_up(engine, Client())
    assert engine.flushes == 2


@pytest.mark.parametrize("forgets", [None, 1.0, 0.2])
async def test_one_that_does_not_tell_or_keep_it_is_refused(forgets) -> None:
    with pytest.raises(EngineError, match="does not tell cached tokens"):
        await warm_up(Engine(), Client(forgets))


async def test_one_that_fails_is_refused_with_its_reason() -> None:
    with pytest.raises(EngineError, match="does not answer as it should: warm-up-0: no such model"):
        await warm_up(Engine(), Client(error="no such model"))
