"""``concur config``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from concur_agents.cli import main
from concur_agents.config import ENVIRONMENT, json_schema
from concur_agents.emulator import Emulator


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ENVIRONMENT:
        monkeypatch.delenv(variable.name, raising=False)


def concur(*args: str) -> Result:
    return CliRunner().invoke(main, ["config", *args])


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "concur.yaml"
    path.write_text("concur:\n  engine: http://127.0.0.1:1\n  law: fixed:8\n")
    return str(path)


def test_a_good_file(good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCUR_FALLBACK", "16")
    monkeypatch.setenv("CONCUR_ENGINE_API_KEY", "sk-secret")
    result = concur("check", good)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["engines[0].url", "http://127.0.0.1:1", f"{good}:2"] in rows
    assert ["law.n", "8", f"{good}:3"] in rows
    assert ["fallback", "16", "CONCUR_FALLBACK"] in rows
    assert ["tick", "1", "default"] in rows
    assert "sk-secret" not in result.output


def test_problems(tmp_path: Path) -> None:
    path = tmp_path / "concur.yaml"
    path.write_text("tick: 0\nfallbak: 3\n")
    result = concur("check", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{path}:1: tick must be a number of seconds above 0" in result.stderr
    assert f"{path}:2: fallbak is not a known field (did you mean fallback?)" in result.stderr
    assert "Traceback" not in result.stderr
    assert concur("check", str(tmp_path / "none.yaml")).exit_code == 2


def test_without_a_file(good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no engine is known" in concur("check").stderr
    monkeypatch.setenv("CONCUR_CONFIG", good)
    assert "http://127.0.0.1:1" in concur("check").stdout


def test_connecting(good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = concur("check", good, "--connect")
    assert (result.exit_code, result.stderr) == (1, "concur config: http://127.0.0.1:1: connection refused\n")
    with Emulator() as server:
        monkeypatch.setenv("CONCUR_ENGINE_URL", server.url)
        result = concur("check", good, "--connect")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = dict(line.split(maxsplit=1) for line in result.stdout.splitlines() if line)
    assert (rows["engine"], rows["hit_rate"]) == ("sglang", "unknown")
    assert rows["pinned_usage"] == "0.0"


def test_the_schema() -> None:
    result = concur("schema")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json_schema()


@pytest.mark.parametrize("command", ["check", "schema"])
def test_help_lists_the_environment(command: str) -> None:
    help_text = concur(command, "--help").output
    for variable in ENVIRONMENT:
        assert variable.name in help_text
