"""The engine's faults, over HTTP."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.chaos.asking import FIELD, HEADER
from benchmarks.chaos.executions import read_executions
from benchmarks.chaos.faulty import DROP, FaultyEngine
from benchmarks.chaos.gateway.plan import Plan, draw_plan
from concur_agents.emulator import ServiceConfig
from concur_agents.emulator.embed import Emulator

Engine = Callable[[str | None], httpx.Client]


def plan_with(fault: str | None) -> Plan:
    """A plan whose first agent's first step goes wrong."""
    plan = draw_plan(0)
    client = plan.clients[0]
    agent = client.agents[0]
    steps = (dataclasses.replace(agent.steps[0], fault=fault), *agent.steps[1:])
    agents = (dataclasses.replace(agent, steps=steps), *client.agents[1:])
    return dataclasses.replace(plan, clients=(dataclasses.replace(client, agents=agents), *plan.clients[1:]))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with contextlib.ExitStack() as stack:
        notes = stack.enter_context((tmp_path / "notes.jsonl").open("a", buffering=1))

        def start(fault: str | None) -> httpx.Client:
            def faulty(app: Any) -> FaultyEngine:
                return FaultyEngine(app, plan_with(fault), notes, tmp_path / "metrics")

            emulator = stack.enter_context(Emulator(ServiceConfig(speedup=1000), middleware=faulty))
            return stack.enter_context(httpx.Client(base_url=emulator.url, timeout=10))

        yield start


def ask(client: httpx.Client, *, attempt: int = 0, **more: Any) -> httpx.Response:
    whose = {"agent": "c0a0", "step": 0, "attempt": attempt}
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 50, FIELD: whose, **more}
    return client.post("/v1/chat/completions", json=body)


def cuts(tmp_path: Path) -> list[bool | None]:
    """Whether each execution was cut; None for one that runs."""
    return [None if each.end_s is None else each.cut for each in read_executions(tmp_path / "notes.jsonl")]


@pytest.mark.parametrize("streams", [False, True])
def test_without_a_fault_the_engine_answers_and_says_whose_reply_it_is(
    engine: Engine, tmp_path: Path, *, streams: bool
) -> None:
    reply = ask(engine(None), attempt=3, stream=streams)
    assert (reply.status_code, reply.headers[HEADER]) == (200, "c0a0/0/3")
    assert cuts(tmp_path) == [False]


@pytest.mark.parametrize(("fault", "status"), [("error", 500), ("busy", 503)])
def test_an_error_is_for_the_first_execution_of_a_step_alone(
    engine: Engine, tmp_path: Path, fault: str, status: int
) -> None:
    client = engine(fault)
    assert [ask(client, attempt=attempt).status_code for attempt in range(3)] == [status, 200, 200]
    assert cuts(tmp_path) == [False, False, False]


@pytest.mark.parametrize("fault", ["drop", "cut"])
@pytest.mark.parametrize("streams", [False, True])
def test_a_connection_that_is_dropped_gives_no_reply_that_looks_whole(
    engine: Engine, tmp_path: Path, fault: str, *, streams: bool
) -> None:
    client = engine(fault)
    with pytest.raises(httpx.TransportError):
        ask(client, stream=streams)
    assert ask(client, attempt=1, stream=streams).status_code == 200
    assert cuts(tmp_path) == [True, False]


def test_an_engine_that_stalls_sees_its_client_go(engine: Engine, tmp_path: Path) -> None:
    client = engine("stall")
    client.timeout = httpx.Timeout(0.1)
    with pytest.raises(httpx.ReadTimeout):
        ask(client)
    client.timeout = httpx.Timeout(10)
    assert ask(client, attempt=1).status_code == 200
    assert cuts(tmp_path) == [True, False]


@pytest.mark.parametrize(
    ("what", "status", "part"),
    [
        ("gone", 404, "Not Found"),
        ("error", 500, "Internal"),
        ("empty", 200, ""),
        ("html", 200, "<html>"),
        ("half", 200, "# HELP"),
        ("nan", 200, "sglang:token_usage"),
    ],
)
def test_metrics_are_wrong_for_as_long_as_the_file_says(
    engine: Engine, tmp_path: Path, what: str, status: int, part: str
) -> None:
    client = engine(None)
    right = client.get("/metrics")
    (tmp_path / "metrics").write_text(what)
    wrong = client.get("/metrics")
    assert (wrong.status_code, part in wrong.text) == (status, True)
    assert len(wrong.text) != len(right.text)
    (tmp_path / "metrics").unlink()
    assert client.get("/metrics").text == right.text


@pytest.mark.parametrize("what", ["hang", "drop"])
def test_metrics_may_not_come_at_all(engine: Engine, tmp_path: Path, what: str) -> None:
    client = engine(None)
    (tmp_path / "metrics").write_text(what)
    with pytest.raises(httpx.TransportError):
        client.get("/metrics", timeout=0.2)


def test_requests_that_are_no_steps_are_answered_and_not_noted(engine: Engine, tmp_path: Path) -> None:
    client = engine("error")
    assert client.get("/v1/models").status_code == 200
    assert ask(client, **{FIELD: "nobody's"}).status_code == 200
    assert cuts(tmp_path) == []


def test_all_connections_can_be_dropped_at_once(engine: Engine, tmp_path: Path) -> None:
    client = engine("stall")
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(ask, client)
        while not cuts(tmp_path):
            time.sleep(0.002)
        with pytest.raises(httpx.TransportError):
            client.post(DROP)
        with pytest.raises(httpx.TransportError):
            asked.result()
    while cuts(tmp_path) != [True]:  # it hears of that a moment after its client does
        time.sleep(0.002)
