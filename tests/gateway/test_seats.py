"""Each generation is a step: who may go, who waits, who is given up, and how an agent ends."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from concur_agents.samples import AgentState


class Engine:
    """Answers a request when it is told to, in the order in which they came."""

    def __init__(self, wire: Any) -> None:
        self.raw = wire.RawEngine(self._answer)
        self._wire = wire
        self._may = [threading.Event() for _ in range(100)]
        self._count = 0
        self._lock = threading.Lock()
        self.names: list[str] = []

    def _answer(self, request: bytes, connection: socket.socket) -> bytes | None:
        with self._lock:
            index, self._count = self._count, self._count + 1
            self.names.append(json.loads(request.partition(b"\r\n\r\n")[2])["name"])
        connection.setblocking(False)
        while not self._may[index].wait(0.005):
            with contextlib.suppress(BlockingIOError):
                if not connection.recv(1, socket.MSG_PEEK):
                    self.raw.hung_up += 1
                    return None
        connection.setblocking(True)
        return self._wire.OK

    def answer(self, index: int) -> None:
        self._may[index].set()

    def has(self, count: int) -> None:
        self._wire.until(lambda: len(self.names) >= count)


class Clients:
    """Each call is a client of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._pool = ThreadPoolExecutor(32)

    def ask(
        self, agent: str, *, name: str | None = None, timeout: float = 30, **headers: str
    ) -> Future[httpx.Response]:
        named = {"X-Session-ID": agent} | {key.replace("_", "-"): value for key, value in headers.items()}
        body = {"name": name or agent, "messages": [{"role": "user", "content": agent}]}

        def post() -> httpx.Response:
            return httpx.post(self.url + "/v1/chat/completions", json=body, headers=named, timeout=timeout)

        return self._pool.submit(post)


@pytest.fixture
def engine(wire: Any) -> Iterator[Engine]:
    one = Engine(wire)
    with one.raw:
        yield one
        for event in one._may:
            event.set()


def finish(served: Any, agent: str) -> None:
    assert httpx.delete(f"{served.url}/concur/v1/agents/{agent}").json() == {"finished": True}


def waiting(served: Any, wire: Any, count: int) -> None:
    wire.until(lambda: served.controller.stats().population.waiting == count)


def state(served: Any, agent: str) -> AgentState | None:
    view = served.controller.view(agent)
    return None if view is None else view.state


def test_who_has_no_seat_waits_and_the_oldest_goes_first(wire: Any, engine: Engine) -> None:
    with wire.serve(engine.raw.url, window=1) as served:
        clients = Clients(served.url)
        first = clients.ask("a")
        engine.has(1)
        second = clients.ask("b")
        waiting(served, wire, 1)
        third = clients.ask("c")
        waiting(served, wire, 2)
        engine.answer(0)
        assert first.result().status_code == 200
        assert engine.names == ["a"]  # in its tool, and keeps its seat
        finish(served, "a")
        engine.has(2)
        engine.answer(1)
        assert second.result().status_code == 200
        finish(served, "b")
        engine.has(3)
        engine.answer(2)
        assert third.result().status_code == 200
        assert engine.names == ["a", "b", "c"]


def test_who_gives_up_is_never_sent_and_keeps_its_age(wire: Any, engine: Engine) -> None:
    with wire.serve(engine.raw.url, window=1) as served:
        clients = Clients(served.url)
        clients.ask("a")
        engine.has(1)
        given_up = clients.ask("b", name="b, given up", timeout=0.3)
        waiting(served, wire, 1)
        assert isinstance(given_up.exception(), httpx.TimeoutException)
        waiting(served, wire, 0)
        assert state(served, "b") is AgentState.PARKED  # known, and so as old as it was
        clients.ask("c")
        waiting(served, wire, 1)
        again = clients.ask("b")
        waiting(served, wire, 2)
        finish(served, "a")
        engine.has(2)
        assert engine.names == ["a", "b"]
        engine.answer(1)
        assert again.result().status_code == 200


def test_who_hangs_up_while_the_engine_works_is_taken_from_the_engine(wire: Any, engine: Engine) -> None:
    with wire.serve(engine.raw.url) as served:
        given_up = Clients(served.url).ask("a", timeout=0.3)
        engine.has(1)
        assert isinstance(given_up.exception(), httpx.TimeoutException)
        wire.until(lambda: engine.raw.hung_up == 1)
        wire.until(lambda: state(served, "a") is AgentState.IN_TOOL)
        wire.until(lambda: served.gateway.requests == 0)


@pytest.mark.parametrize("where", ["queued", "generating"])
def test_a_connection_that_breaks_anywhere_leaves_nothing(wire: Any, engine: Engine, where: str) -> None:
    with wire.serve(engine.raw.url, window=1) as served:
        if where == "queued":
            Clients(served.url).ask("first")
            engine.has(1)
        host, port = served.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            body = b'{"name": "x", "messages": []}'
            connection.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-Session-ID: x\r\nContent-Length: %d\r\n\r\n"
                % len(body)
                + body
            )
            if where == "queued":
                waiting(served, wire, 1)
            else:
                engine.has(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, no goodbye
        wire.until(lambda: state(served, "x") is not AgentState.GENERATING)
        waiting(served, wire, 0)


def test_an_announced_timeout_is_answered_before_it_fires(wire: Any, engine: Engine) -> None:
    with wire.serve(engine.raw.url, window=1) as served:
        clients = Clients(served.url)
        clients.ask("a")
        engine.has(1)
        reply = clients.ask("b", timeout=1.0, x_stainless_read_timeout="0.5").result()
        assert reply.status_code == 503
        assert reply.headers["retry-after"] == "1"
        assert "waits for its turn" in reply.json()["error"]["message"]
        assert state(served, "b") is AgentState.PARKED


def test_the_last_try_gets_signs_of_life_instead(wire: Any, engine: Engine) -> None:
    with wire.serve(engine.raw.url, window=1, heartbeat=0.1) as served:
        clients = Clients(served.url)
        clients.ask("a")
        engine.has(1)
        last = clients.ask("b", timeout=0.5, x_stainless_read_timeout="0.1", x_stainless_retry_count="2")
        waiting(served, wire, 1)
        assert not wire.until(lambda: served.controller.view("b").waited_s > 0.7)  # longer than its timeout
        finish(served, "a")
        engine.has(2)
        engine.answer(1)
        assert last.result().json() == {}
        assert last.result().content.strip() == b"{}"


def test_a_reply_that_began_with_signs_of_life_is_never_compressed(wire: Any, engine: Engine) -> None:
    with wire.serve(engine.raw.url, window=1, heartbeat=0.1) as served:
        clients = Clients(served.url)
        clients.ask("a", accept_encoding="gzip")
        engine.has(1)
        last = clients.ask("b", x_stainless_timeout="0.1", x_stainless_retry_count="2", accept_encoding="gzip")
        wire.until(lambda: served.gateway.roster.get("b") is not None)
        wire.until(lambda: served.controller.view("b") is not None and served.controller.view("b").waited_s > 0.3)
        finish(served, "a")
        engine.has(2)
        engine.answer(1)
        assert last.result().content.strip() == b"{}"
    asked = [b"accept-encoding" in request.lower() for request in engine.raw.requests]
    assert asked == [True, False]


def test_a_request_may_be_held_no_longer_than_configured(wire: Any, engine: Engine) -> None:
    with wire.serve(engine.raw.url, window=1, hold=0.2) as served:
        clients = Clients(served.url)
        clients.ask("a")
        engine.has(1)
        assert clients.ask("b").result().status_code == 503


def test_requests_of_one_agent_at_once_share_its_seat(wire: Any, engine: Engine) -> None:
    with wire.serve(engine.raw.url, window=1) as served:
        clients = Clients(served.url)
        both = [clients.ask("a"), clients.ask("a")]
        engine.has(2)
        engine.answer(0)
        engine.answer(1)
        assert [each.result().status_code for each in both] == [200, 200]
        assert len(served.gateway.roster) == 1


def test_sub_agents_share_their_parents_seat(wire: Any, engine: Engine) -> None:
    with wire.serve(engine.raw.url, window=1) as served:
        clients = Clients(served.url)
        clients.ask("a")
        engine.has(1)
        engine.answer(0)
        clients.ask("a1", x_parent_session_id="a")
        engine.has(2)
        finish(served, "a")
        assert len(served.gateway.roster) == 0


def test_a_last_request_ends_its_agent(wire: Any, engine: Engine) -> None:
    with wire.serve(engine.raw.url) as served:
        last = Clients(served.url).ask("a", x_session_final="true")
        engine.has(1)
        engine.answer(0)
        assert last.result().status_code == 200
        wire.until(lambda: len(served.gateway.roster) == 0)
        assert served.controller.stats().known == 0


def test_agents_of_which_nothing_is_heard_have_ended_but_never_one_in_flight(wire: Any, engine: Engine) -> None:
    with wire.serve(engine.raw.url, idle_after=0.2) as served:
        clients = Clients(served.url)
        clients.ask("a")
        clients.ask("b")
        engine.has(2)
        engine.answer(engine.names.index("a"))
        wire.until(lambda: served.gateway.roster.expired == 1)
        assert [member.agent_id for member in served.gateway.roster] == ["b"]
        assert served.controller.stats().known == 1


def test_who_ended_and_said_nothing_does_not_block_the_rest(wire: Any, engine: Engine) -> None:
    with wire.serve(engine.raw.url, window=1, park_after=0.1) as served:
        clients = Clients(served.url)
        clients.ask("a")
        engine.has(1)
        clients.ask("b")
        waiting(served, wire, 1)
        engine.answer(0)
        engine.has(2)
        assert state(served, "a") is AgentState.PARKED


def test_more_agents_than_are_kept_push_out_the_longest_idle(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, max_agents=3) as served:
        for index in range(10):
            httpx.post(served.url + "/v1/chat/completions", json={}, headers={"X-Session-ID": str(index)})
        assert [member.agent_id for member in served.gateway.roster] == ["7", "8", "9"]
        assert served.controller.stats().known == 3


def test_who_is_not_named_goes_through_uncounted(wire: Any) -> None:
    with wire.RawEngine() as engine, wire.serve(engine.url, identity=("header:X-Session-ID",)) as served:
        assert httpx.post(served.url + "/v1/chat/completions", json={"messages": [{"role": "user"}]}).status_code == 200
        assert httpx.post(served.url + "/v1/embeddings", json={}, headers={"X-Session-ID": "a"}).status_code == 200
        assert len(served.gateway.roster) == 0


def test_stopping_answers_who_waits_and_lets_replies_end(wire: Any, engine: Engine) -> None:
    with wire.serve(engine.raw.url, window=1) as served:
        clients = Clients(served.url)
        running = clients.ask("a")
        engine.has(1)
        queued = clients.ask("b")
        waiting(served, wire, 1)
        served.stop()
        assert queued.result().status_code == 503
        engine.answer(0)
        assert running.result().status_code == 200


def test_who_looks_done_gives_its_seat_to_who_waits_and_has_soon_ended(wire: Any, engine: Engine) -> None:
    wire_ok, done = (
        wire.OK,
        json.dumps({"choices": [{"message": {"tool_calls": [{"function": {"name": "submit"}}]}}]}).encode(),
    )
    engine._wire = SimpleNamespace(
        OK=wire_ok.replace(b"Length: 2", b"Length: %d" % len(done))[:-2] + done, until=wire.until
    )
    with wire.serve(engine.raw.url, window=1, done_after=0.5) as served:
        clients = Clients(served.url)
        clients.ask("a")
        engine.has(1)
        clients.ask("b")
        waiting(served, wire, 1)
        engine.answer(0)
        engine.has(2)
        wire.until(lambda: [member.agent_id for member in served.gateway.roster] == ["b"])
        engine.answer(1)
