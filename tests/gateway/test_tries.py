"""Tries that fail or are given up, as faults bring them together (``benchmarks/chaos``), each as small as can be."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

CHAT = "/v1/chat/completions"
FINAL = {"x-session-final": "true"}
LUCKLESS = b'{\n"error": {"message": "no luck"}}'
ERROR = b"HTTP/1.1 %%d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(LUCKLESS), LUCKLESS)


def ask(served: Any, agent: str, *, timeout: float = 30, stream: bool = False, **headers: str) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": agent}], "stream": stream}
    return httpx.post(served.url + CHAT, json=body, headers={"X-Session-ID": agent, **headers}, timeout=timeout)


def waits(served: Any, agent: str) -> int:
    """Requests of the agent that are in flight."""
    member = served.gateway.roster.get(agent)
    return 0 if member is None else member.open


def waiting(served: Any) -> int:
    """Agents that wait for a seat."""
    return served.controller.stats().population.waiting


@pytest.mark.parametrize("status", [500, 503])
def test_an_engine_s_error_after_signs_of_life_is_an_event_of_the_stream(wire: Any, status: int) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, window=1, hold=0.05, heartbeat=0.05) as served:
        ask(served, "a")
        engine._answer = lambda *_: ERROR % status
        with ThreadPoolExecutor() as threads:
            last = threads.submit(ask, served, "b", stream=True, **{"x-stainless-retry-count": "2"})
            wire.until(lambda: waits(served, "b"))
            wire.until(lambda: served.controller.view("b").waited_s > 0.2)
            served.gateway.roster.finish("a")
            reply = last.result()
        told = [line for line in reply.content.split(b"\n") if line and not line.startswith(b":")]
        assert json.loads(told[0].removeprefix(b"data:"))["error"]["message"].encode() == LUCKLESS
        assert told[1:] == [b"data: [DONE]"]
        assert not waits(served, "b")


def test_a_last_request_that_was_given_up_leaves_its_agent_its_place(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, window=1) as served:
        ask(served, "a")
        with pytest.raises(httpx.ReadTimeout):
            ask(served, "b", timeout=0.2, **FINAL)
        wire.until(lambda: not served.gateway.requests)
        with ThreadPoolExecutor() as threads:
            younger = threads.submit(ask, served, "c")
            wire.until(lambda: waiting(served) == 1)
            again = threads.submit(ask, served, "b", **FINAL)
            wire.until(lambda: waiting(served) == 2)
            served.gateway.roster.finish("a")
            assert again.result().status_code == younger.result().status_code == 200
        order = [b'"content":"%s"' % name in request for name in (b"b", b"c") for request in engine.requests[1:]]
        assert order == [True, False, False, True]
        wire.until(lambda: served.gateway.roster.get("b") is None)


def test_a_last_request_that_is_given_up_does_not_take_its_agent_from_the_next_try(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, window=1) as served, ThreadPoolExecutor() as threads:
        ask(served, "a")
        first = threads.submit(ask, served, "b", timeout=0.4, **FINAL)
        wire.until(lambda: waits(served, "b"))
        second = threads.submit(ask, served, "b", **FINAL)
        wire.until(lambda: waits(served, "b") == 2)
        with pytest.raises(httpx.ReadTimeout):
            first.result()
        wire.until(lambda: served.gateway.requests == 1)
        assert len(engine.requests) == 1  # the second try waits on
        assert waiting(served) == 1
        served.gateway.roster.finish("a")
        assert second.result().status_code == 200
        wire.until(lambda: served.gateway.roster.get("b") is None)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_last_request_that_the_engine_refuses_may_be_tried_again(wire: Any, status: int) -> None:
    with wire.RawEngine(ERROR % status) as engine, wire.serve(engine.url) as served:
        assert ask(served, "a", **FINAL).status_code == status
        assert served.gateway.roster.get("a") is not None
        engine._answer = lambda *_: wire.OK
        assert ask(served, "a", **FINAL).status_code == 200
        wire.until(lambda: served.gateway.roster.get("a") is None)
