"""Streams whose client did not ask for their usage: what is unknown is not 0, and the batch is still in good hands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from concur_agents import FixedWindow, TokenBudget
from concur_agents.emulator import CostModel, EngineConfig, ServiceConfig
from concur_agents.emulator.embed import Emulator
from concur_agents.samples import Reason

ASKED = {"stream_options": {"include_usage": True}}
MANY = TokenBudget(without=FixedWindow(7))


@pytest.fixture
def engine() -> Iterator[Any]:
    """A pool of 6,000 tokens: three of the agents below at their longest."""
    config = EngineConfig(max_total_tokens=6_000, context_length=6_000)
    cost = CostModel(prefill_token_s=0.002, decode_base_s=0.05)
    with Emulator(ServiceConfig(engine=config, cost=cost, speedup=200)) as one:
        yield one


def run(url: str, name: str, steps: int, **more: Any) -> list[int]:
    """An agent whose context grows: its statuses. Streams, as many chat clients do."""
    messages = [{"role": "user", "content": f"{name} {'begin ' * 200}"}]
    statuses = []
    for step in range(steps):
        body = {"model": "m", "messages": messages, "stream": True, "max_tokens": 20, "ignore_eos": True, **more}
        with httpx.stream("POST", url + "/v1/chat/completions", json=body, timeout=60) as reply:
            statuses.append(reply.status_code)
            said = "".join(_texts(reply.iter_lines()))
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": f"{step} {'go on ' * 50}"}]
    return statuses


def _texts(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith("data: {"):
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                yield choice["delta"].get("content") or ""


def test_what_a_stream_does_not_tell_is_unknown_everywhere(wire: Any, engine: Any) -> None:
    with wire.serve(engine.url, law=MANY) as served:
        assert run(served.url, "a", 3) == [200] * 3
        (agent,) = httpx.get(served.url + "/concur/v1/agents").json()["agents"]
        assert (agent["steps"], agent["context_tokens"], agent["matched"]) == (3, None, True)
        (status,) = httpx.get(served.url + "/concur/v1/status").json()["engines"]
        assert (status["cached_tokens"], status["recomputed_tokens"]) == (None, None)
        stats = served.controller.stats()
        assert stats.population.measured is False
        assert stats.population.first_context is stats.population.mean_context is stats.population.reuse is None


def test_another_law_decides_until_replies_tell_and_again_when_they_stop(wire: Any, engine: Any) -> None:
    """The budget would count as held by nobody what it cannot see."""
    with wire.serve(engine.url, law=MANY) as served:
        run(served.url, "a", 2)
        wire.until(lambda: served.controller.stats().window == 7)
        assert served.controller.stats().population.tokens == float("inf")
        run(served.url, "b", 4, **ASKED)
        wire.until(lambda: served.controller.stats().reason is Reason.FOLLOW)
        assert served.controller.stats().population.tokens < 6_000
        run(served.url, "c", 6)
        wire.until(lambda: served.controller.stats().window == 7)


@pytest.mark.parametrize("more", [{}, ASKED], ids=["unknown", "known"])
def test_a_batch_that_is_four_times_the_pool_gets_through(wire: Any, engine: Any, more: dict[str, Any]) -> None:
    """By the default law, and where nothing is known by the paper's: it needs the engine's metrics alone."""
    with wire.serve(engine.url, law=TokenBudget()) as served, ThreadPoolExecutor(12) as pool:
        runs = [pool.submit(run, served.url, f"agent {number}", 5, **more) for number in range(12)]
        assert [each.result() for each in runs] == [[200] * 5] * 12
        members = list(served.gateway.roster)
        assert sorted(served.controller.view(member.agent_id).steps for member in members) == [5] * 12
        stats = served.controller.stats()
        assert stats.population.measured is bool(more)
