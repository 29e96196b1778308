"""``concur serve`` as a process of its own: what it prints, what is in force, how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from concur_agents import Controller, shared, shared_controller
from concur_agents.cli import main
from concur_agents.config import ENVIRONMENT
from concur_agents.remote import RemoteController

NOWHERE = "http://127.0.0.1:9"
TOKEN = "s3cret-token"


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("CONCUR_")} | more


@contextmanager
def running(*options: str, **variables: str) -> Iterator[Any]:
    command = [sys.executable, "-m", "concur_agents.cli", "serve", "--port", "0", *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**variables)
    ) as process:
        try:
            assert process.stdout is not None
            process.url = process.stdout.readline().strip()  # type: ignore[attr-defined]
            yield process
        finally:
            process.kill()


def window(url: str, **headers: str) -> Any:
    return httpx.get(url + "/concur/v1/stats", headers=headers).json()["window"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_serves_and_stops(number: signal.Signals) -> None:
    with running("--engine", NOWHERE, "--law", "fixed:3") as process:
        assert process.url.startswith("http://127.0.0.1:")
        assert window(process.url) == 3
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, "Traceback" in err) == (0, "", False)


def test_a_signal_right_after_the_address_is_not_lost() -> None:
    with running("--engine", NOWHERE) as process:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0


def test_the_token_comes_from_a_file_or_the_environment_and_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    told = {"Authorization": f"Bearer {TOKEN}"}
    for options, variables in (
        (("--token-file", str(file)), {}),
        ((), {"CONCUR_TOKEN": TOKEN}),
        (("--host", "0.0.0.0"), {"CONCUR_TOKEN": TOKEN}),
    ):
        with running("--engine", NOWHERE, *options, **variables) as process:
            url = process.url.replace("0.0.0.0", "127.0.0.1")
            assert httpx.get(url + "/concur/v1/stats").status_code == 401
            assert httpx.get(url + "/concur/v1/stats", headers=told).status_code == 200
            assert TOKEN not in Path(f"/proc/{process.pid}/cmdline").read_text()
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
            assert TOKEN not in out + err


def test_the_controllers_own_variable_does_not_confuse_it(tmp_path: Path) -> None:
    file = tmp_path / "concur.yaml"
    file.write_text(f"engine: {NOWHERE}\nlaw: fixed:2\ncontroller: {NOWHERE}\n")
    with running(CONCUR_CONFIG=str(file), CONCUR_CONTROLLER="http://127.0.0.1:8") as process:
        assert window(process.url) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--law", "nope"], "--law must be budget, concur, fixed, uncontrolled or package.module:Class, got 'nope'"),
        (["--host", "0.0.0.0"], "--host 0.0.0.0 is no loopback address"),
        (["--host", "256.0.0.1", "--insecure"], "--host 256.0.0.1 --port 0 cannot be listened on: "),
        (["--lease", "0"], "--lease must be a finite number of at least 0.1, got 0.0"),
        (["--in-flight", "nan"], "--in-flight must be a finite number of at least 0, got nan"),
        (["--token-file", "nowhere"], "--token-file nowhere cannot be read: "),
        (["--engine", "127.0.0.1:30000"], "--engine must start with http:// or https://, got '127.0.0.1:30000'"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
    ],
)
def test_a_bad_option_is_named_with_its_value_in_one_line(
    monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    for name in [name for name in os.environ if name.startswith("CONCUR_")]:
        monkeypatch.delenv(name)
    result = CliRunner().invoke(main, ["serve", "--engine", NOWHERE, "--port", "0", *options])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"concur serve: {said}")
    assert result.stderr.count("\n") == 1


def test_a_token_that_is_none_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    for text, said in (("", "is empty"), ("hush hush", "must hold visible ASCII characters without spaces")):
        file.write_text(text)
        result = CliRunner().invoke(main, ["serve", "--engine", NOWHERE, "--token-file", str(file)])
        assert (result.exit_code, said in result.stderr, "hush" in result.stderr) == (2, True, False)
    monkeypatch.setenv("CONCUR_TOKEN", "hush hush")
    result = CliRunner().invoke(main, ["serve", "--engine", NOWHERE])
    assert (result.exit_code, "CONCUR_TOKEN must hold" in result.stderr, "hush" in result.stderr) == (2, True, False)


def test_a_missing_engine_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONCUR_ENGINE_URL", raising=False)
    result = CliRunner().invoke(main, ["serve", "--port", "0"])
    assert result.exit_code == 2
    assert result.stderr.startswith("concur serve: --engine is missing")


def test_without_the_extra_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['aiohttp'] = None; from concur_agents.cli import main;"
        f"sys.argv = ['concur', 'serve', '--engine', {NOWHERE!r}]; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert "pip install 'concur-agents[remote]'" in result.stderr
    assert result.stderr.count("\n") == 1
    code = "import sys; sys.modules['aiohttp'] = None; from concur_agents import Controller; Controller.connect('http://h')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "ImportError: a remote controller needs aiohttp: pip install 'concur-agents[remote]'" in result.stderr


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody else's controllers, nor this machine's environment."""
    for variable in ENVIRONMENT:
        monkeypatch.delenv(variable.name, raising=False)
    state = shared._State()
    monkeypatch.setattr(shared, "_state", state)
    monkeypatch.setattr(state, "_prepared", True)
    yield
    state.close()


@pytest.mark.usefixtures("fresh")
def test_text_alone_leads_to_a_shared_controller(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    service = serve(3)
    first = shared_controller({"controller": service.url})
    assert isinstance(first, RemoteController)
    assert first.stats().window == 3
    monkeypatch.setenv("CONCUR_CONTROLLER", service.url)
    assert shared_controller() is first
    other = shared_controller({"engine": NOWHERE})
    assert isinstance(other, RemoteController), "the environment is stronger"
    assert shared_controller(other) is other
    with first.sync.agent("a") as agent, agent.step():
        first.flush()
        assert [view.agent_id for view in service.controller.agents()] == ["a"]


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("url", ["127.0.0.1:1", "http://user:hush@h", "http://"])
def test_a_bad_address_in_a_configuration_is_named_without_its_secrets(url: str) -> None:
    with pytest.raises(ValueError, match=r"controller (must|has)") as caught:
        shared_controller({"controller": url})
    assert "hush" not in str(caught.value)


@pytest.mark.usefixtures("fresh")
def test_a_controller_of_ones_own_still_needs_an_engine(serve: Any) -> None:
    with pytest.raises(ValueError, match="no engine is known"):
        Controller.from_config({"controller": serve().url})
