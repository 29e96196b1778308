"""A gateway with the default law, and an engine that says what it is told to.

Ticks are an hour apart, so that nothing here waits for one; a test that needs one more takes it itself.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from concur_agents import Controller
from concur_agents.gateway import Gateway, GatewayLimits
from concur_agents.gateway.embed import EmbeddedGateway
from concur_agents.gateway.upstream import Upstream
from concur_agents.samples import AgentState, EngineSample
from concur_agents.testing import ManualClock, ScriptedReader

CHAT = "/v1/chat/completions"
HOUR = 3600.0


class Engine:
    """Says that a prompt has as many tokens as its request tells it to; holds the replies of some agents."""

    def __init__(self, wire: Any) -> None:
        self.raw = wire.RawEngine(self._answer)
        self.asked: list[str] = []
        """Agents whose requests have arrived, in order."""
        self._changed = threading.Condition()
        self._holding: set[str] = set()

    def hold(self, *agents: str) -> None:
        with self._changed:
            self._holding.update(agents)

    def let(self, *agents: str) -> None:
        with self._changed:
            self._holding.difference_update(agents)
            self._changed.notify_all()

    def let_all(self) -> None:
        self.let(*self._holding)

    def has(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.asked) >= count, timeout=30), (
                len(self.asked),
                self.asked[-8:],
            )

    def _answer(self, request: bytes, connection: socket.socket) -> bytes | None:
        asked = json.loads(request.partition(b"\r\n\r\n")[2])
        with self._changed:
            self.asked.append(asked["agent"])
            self._changed.notify_all()
            self._changed.wait_for(lambda: asked["agent"] not in self._holding)
        if asked["status"] is None:
            connection.shutdown(socket.SHUT_RDWR)
            return None
        reply = {
            "choices": [{"message": {"role": "assistant", "content": "x"}, "finish_reason": asked["ends"]}],
            "usage": {
                "prompt_tokens": asked["tokens"],
                "completion_tokens": 0,
                "prompt_tokens_details": {"cached_tokens": 0},
            },
        }
        body = json.dumps(reply if asked["status"] == 200 else {"error": {"message": "x"}}).encode()
        head = f"HTTP/1.1 {asked['status']} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body


class Batch:
    """Agents in front of a gateway; each request is a client of its own."""

    def __init__(self, url: str, gateway: Gateway, readers: list[ScriptedReader], stop: Any) -> None:
        self.url = url
        self.gateway = gateway
        self.readers = readers
        self.stop = stop
        self._pool = ThreadPoolExecutor(32)

    @property
    def controller(self) -> Controller:
        return self.gateway.upstreams[0].controller

    @property
    def engine(self) -> dict[str, Any]:
        """What ``/concur/v1/status`` says of the first engine."""
        status: dict[str, Any] = httpx.get(self.url + "/concur/v1/status").json()["engines"][0]
        return status

    def ask(
        self,
        agent: str,
        tokens: int,
        *,
        text: str = "x",
        status: int | None = 200,
        ends: str = "tool_calls",
    ) -> Future[httpx.Response]:
        body = {
            "agent": agent,
            "tokens": tokens,
            "status": status,
            "ends": ends,
            "messages": [{"role": "user", "content": text}],
        }
        named = {"X-Session-ID": agent}
        return self._pool.submit(httpx.post, self.url + CHAT, json=body, headers=named, timeout=60)

    def step(self, agent: str, tokens: int, **more: Any) -> None:
        assert self.ask(agent, tokens, **more).result().status_code == 200

    def finish(self, agent: str) -> None:
        assert httpx.delete(f"{self.url}/concur/v1/agents/{agent}").json() == {"finished": True}

    def state(self, agent: str) -> AgentState:
        view = self.controller.view(agent)
        assert view is not None
        return view.state


@contextlib.contextmanager
def _batch(wire: Any, *engines: Engine, capacity: int, clock: Any = None, **limits: Any) -> Iterator[Batch]:
    """A gateway whose controllers have the default law and have ticked once; time stands still by default."""
    readers = [ScriptedReader([EngineSample(capacity_tokens=capacity)]) for _ in engines]
    upstreams = [
        Upstream(engine.raw.url, Controller(reader, tick=HOUR, clock=clock or ManualClock()))
        for engine, reader in zip(engines, readers, strict=True)
    ]
    gateway = Gateway(upstreams, limits=GatewayLimits(**limits))
    with EmbeddedGateway(gateway, grace=0.1) as served:
        for upstream in upstreams:
            wire.until(lambda upstream=upstream: upstream.controller.stats().population.tokens == 0.95 * capacity)
        yield Batch(served.url, gateway, readers, served.stop)


@pytest.fixture
def engines(wire: Any) -> Iterator[tuple[Engine, Engine]]:
    first, second = Engine(wire), Engine(wire)
    with first.raw, second.raw:
        yield first, second
        first.let_all()
        second.let_all()


@pytest.fixture
def engine(engines: tuple[Engine, Engine]) -> Engine:
    return engines[0]


@pytest.fixture
def batch() -> Any:
    """Puts a gateway before engines: ``with batch(wire, engine, capacity=...) as served``."""
    return _batch
