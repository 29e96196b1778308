"""``concur gateway`` as a process of its own: what it prints, what is in force, how it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from concur_agents.cli import main

CHAT = "/v1/chat/completions"
NOWHERE = "http://127.0.0.1:9"
BLOCKED = """
import sys
sys.modules[{module!r}] = None
from concur_agents.cli import main
sys.argv = ["concur", "gateway", "--engine", "http://127.0.0.1:9", "--port", "0"]
main()
"""


def environment(**more: str) -> dict[str, str]:
    """Without what whoever runs the tests may have configured."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CONCUR_")} | more


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "concur_agents.cli", "gateway", *options]


@contextlib.contextmanager
def running(*options: str, **variables: str) -> Iterator[Any]:
    """A running `concur gateway`; ``url`` is what it printed."""
    with subprocess.Popen(
        command("--port", "0", *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    ) as process:
        try:
            assert process.stdout is not None
            process.url = process.stdout.readline().strip()  # type: ignore[attr-defined]
            yield process
        finally:
            process.kill()


def engine_of(url: str) -> dict[str, Any]:
    one: dict[str, Any] = httpx.get(url + "/concur/v1/status").json()["engines"][0]
    return one


def ended(*options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*options), capture_output=True, text=True, timeout=60, check=False, env=environment(**variables)
    )


def test_it_prints_its_address_and_serves(wire: Any) -> None:
    with wire.emulator() as engine, running("--engine", engine.url) as process:
        assert process.url.startswith("http://127.0.0.1:")
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 3}
        assert httpx.post(process.url + CHAT, json=body).json()["usage"]["completion_tokens"] == 3
        assert httpx.get(process.url + "/v1/models").json() == httpx.get(engine.url + "/v1/models").json()
        assert engine_of(process.url)["url"] == engine.url
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, "")
        assert "Traceback" not in err


def test_options_and_a_file_are_in_force_and_options_are_stronger(wire: Any, tmp_path: Path) -> None:
    file = tmp_path / "concur.yaml"
    file.write_text("law: fixed:3\n")
    configured = ("--config", str(file))
    windows = []
    with wire.RawEngine() as engine:
        for options in (("--law", "fixed:1"), configured, (*configured, "--law", "fixed:2")):
            with running("--engine", engine.url, *options) as process:
                windows.append(engine_of(process.url)["window"])
    assert windows == [1, 3, 2]


def test_the_engine_may_come_from_the_configuration(wire: Any, tmp_path: Path) -> None:
    with wire.RawEngine() as engine:
        file = tmp_path / "concur.toml"
        file.write_text(f'engine = "{engine.url}"\n')
        with running(CONCUR_CONFIG=str(file)) as process:
            assert engine_of(process.url)["url"] == engine.url
            assert httpx.post(process.url + CHAT, json={}).status_code == 200


def test_two_engines_share_the_agents(wire: Any) -> None:
    with (
        wire.RawEngine() as first,
        wire.RawEngine() as second,
        running("--engine", first.url, "--engine", second.url + "/v1") as process,
    ):
        for agent in "abcd":
            httpx.post(process.url + CHAT, json={}, headers={"X-Session-ID": agent})
        engines = httpx.get(process.url + "/concur/v1/status").json()["engines"]
        assert [(each["url"], each["agents"]) for each in engines] == [(first.url, 2), (second.url, 2)]


def test_engines_join_by_their_ranks_where_the_command_line_allows_it(wire: Any) -> None:
    with wire.RawEngine() as first, wire.RawEngine() as second, wire.RawEngine() as third:
        allowed = ("--allow-engines", second.url, "--agent-header", "X-SMG-Routing-Key", "--dp-ranks", "2")
        with running("--engine", first.url, *allowed) as process:
            api = process.url + "/concur/v1/engines"
            assert httpx.post(api, json={"url": second.url}).status_code == 201
            assert httpx.post(api, json={"url": third.url}).status_code == 403
            for agent in "abcd":
                assert httpx.post(process.url + CHAT, json={}, headers={"X-Session-ID": agent}).status_code == 200
            engines = httpx.get(api).json()["engines"]
            assert [(each["url"], each["rank"], each["agents"]) for each in engines] == [
                (url, rank, 1) for url in (first.url, second.url) for rank in (0, 1)
            ]
            assert b"x-smg-routing-key: a\r\n" in first.requests[0].lower()


def test_who_is_an_agent_is_as_configured(wire: Any) -> None:
    with wire.RawEngine() as engine, running("--engine", engine.url, "--identity", "header:X-Mine, body:me") as process:
        for headers, body in (({"X-Mine": "a"}, {}), ({}, {"me": "b"}), ({"X-Session-ID": "c"}, {})):
            assert httpx.post(process.url + CHAT, json=body, headers=headers).status_code == 200
        agents = httpx.get(process.url + "/concur/v1/agents").json()["agents"]
        assert [agent["agent_id"] for agent in agents] == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--law", "nope"], "--law must be budget, concur, fixed, uncontrolled or package.module:Class, got 'nope'"),
        (["--law", "fixed:0"], "--law must be unlimited or a number of agents of at least 1, got 0"),
        (["--identity", "user"], "--identity must be of header:NAME, body:FIELD and prefix, got 'user'"),
        (["--identity", "header:a b"], "--identity must be of header:NAME, body:FIELD and prefix, got 'header:a b'"),
        (["--identity", ""], "--identity must be of header:NAME, body:FIELD and prefix, got ''"),
        (["--identity", "prefix,prefix"], "--identity must not name a source twice, got prefix, prefix"),
        (["--idle-after", "-1"], "--idle-after must be above 0, got -1.0"),
        (["--idle-after", "nan"], "--idle-after must be a number, got nan"),
        (["--hold", "0"], "--hold must be above 0, got 0.0"),
        (["--hold-share", "1.5"], "--hold-share must be from 0 to 1, got 1.5"),
        (["--engine-wait", "-1"], "--engine-wait must be at least 0, got -1.0"),
        (["--grace", "-1"], "--grace must be a number of seconds of at least 0, got -1.0"),
        (["--grace", "inf"], "--grace must be a number of seconds of at least 0, got inf"),
        (["--engine", "http://127.0.0.1:9/v1"], "--engine must not name an engine twice, got http://127.0.0.1:9, "),
        (["--engine", "127.0.0.1:30000"], "--engine must start with http:// or https://, got '127.0.0.1:30000'"),
        (["--engine", "http://"], "--engine has no host: 'http://'"),
        (
            ["--allow-engines", "10.0.0.*"],
            "--allow-engines must be patterns like 'http://10.0.0.*:30000', got '10.0.0.*'",
        ),
        (["--agent-header", "a b"], "--agent-header must be the name of an HTTP header, or None, got 'a b'"),
        (["--host", "256.0.0.1"], "--host 256.0.0.1 --port 0 cannot be listened on: "),
        (["--config", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
    ],
)
def test_a_bad_option_is_named_with_its_value_in_one_line(
    monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    for name in [name for name in os.environ if name.startswith("CONCUR_")]:
        monkeypatch.delenv(name)
    result = CliRunner().invoke(main, ["gateway", "--engine", NOWHERE, "--port", "0", *options])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"concur gateway: {said}")
    assert result.stderr.count("\n") == 1


def test_a_bad_variable_is_named_as_the_variable() -> None:
    result = ended("--engine", NOWHERE, "--port", "0", CONCUR_LAW="nope")
    assert result.returncode == 2
    assert result.stderr.startswith("concur gateway: CONCUR_LAW must be")


def test_a_missing_engine_is_said() -> None:
    result = ended("--port", "0")
    assert result.returncode == 2
    assert result.stderr.startswith("concur gateway: --engine is missing")
    assert result.stderr.count("\n") == 1


def test_a_port_in_use_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = ended("--engine", NOWHERE, "--port", str(port))
    assert result.returncode == 2
    assert (
        result.stderr
        == f"concur gateway: --host 127.0.0.1 --port {port} cannot be listened on: Address already in use\n"
    )


@pytest.mark.parametrize("module", ["aiohttp", "uvicorn"])
def test_without_the_extra_it_says_what_to_install(module: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", BLOCKED.format(module=module)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert module in result.stderr
    assert "pip install 'concur-agents[gateway]'" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_answers_who_waits_and_ends_it(wire: Any, number: signal.Signals) -> None:
    with wire.emulator() as engine, ThreadPoolExecutor(16) as pool:
        options = ("--engine", engine.url, "--law", "fixed:1", "--grace", "30")
        with running(*options) as process:

            def ask(agent: str, tokens: int) -> Any:
                body = {
                    "messages": [{"role": "user", "content": "x"}],
                    "max_tokens": tokens,
                    "ignore_eos": True,
                }
                headers = {"X-Session-ID": agent}
                return pool.submit(httpx.post, process.url + CHAT, json=body, headers=headers, timeout=60)

            assert ask("a", 1).result().status_code == 200  # it holds the seat from now on
            queued = [ask(str(index), 1) for index in range(10)]
            wire.until(lambda: engine_of(process.url)["waiting"] == 10)
            process.send_signal(number)
            replies = [each.result() for each in queued]
            out, err = process.communicate(timeout=30)  # well before the grace is over
    assert [reply.status_code for reply in replies] == [503] * 10
    assert all(reply.headers["retry-after"] for reply in replies)
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in err


def test_a_reply_under_way_ends_within_the_grace_and_one_that_does_not_is_cut(wire: Any) -> None:
    def answer(request: bytes, connection: socket.socket) -> bytes | None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{")
        wire.until(lambda: stopping)
        if b"/slow" not in request:
            connection.sendall(b"}")
        return None if b"/slow" in request else b""

    stopping: list[bool] = []
    with (
        wire.RawEngine(answer) as engine,
        ThreadPoolExecutor(2) as pool,
        running("--engine", engine.url, "--grace", "0.5") as process,
    ):
        ends, hangs = (pool.submit(httpx.get, process.url + path, timeout=60) for path in ("/x", "/slow"))
        wire.until(lambda: len(engine.requests) == 2)
        process.send_signal(signal.SIGTERM)
        stopping.append(True)
        assert ends.result().content == b"{}"
        assert isinstance(hangs.exception(), httpx.RemoteProtocolError)
        process.communicate(timeout=30)
        assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_right_after_the_address_is_not_lost(number: signal.Signals) -> None:
    with running("--engine", NOWHERE) as process:
        process.send_signal(number)
        process.communicate(timeout=30)
    assert process.returncode == 0
