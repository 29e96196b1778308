"""The command keeps what is in a record already, and says what it cannot do."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from benchmarks.gateway import cli


@pytest.fixture
def command(monkeypatch, record):
    """Runs the command, whose measurements are there at once."""

    async def measure(settings, folder, tell):
        tell(f"{settings.repeats} repeats")
        return dict(record)

    async def compare(repeats, seconds, folder):
        return {"aiohttp": {"version": "3", "per_s": [2.0] * repeats}}

    async def soak(kind, settings, folder):
        sample = {"at_s": 0.0, "rss_kib": 1024, "files": 9, "agents": 0, "arrived": 0}
        return {
            "agents": settings.agents,
            "requests": 3 * settings.agents,
            "failed": 0,
            "idle_after_s": settings.idle_after_s,
            "seconds": 1.0,
            "most_agents": 1,
            "before": sample,
            "after": sample,
            "growth": None,
        }

    monkeypatch.setattr(cli, "measure", measure)
    monkeypatch.setattr(cli, "compare", compare)
    monkeypatch.setattr(cli, "soak", soak)
    return lambda *words: CliRunner().invoke(cli.app, [str(word) for word in words])


def test_a_run_prints_its_table_and_leaves_its_record(command, tmp_path, record):
    file = tmp_path / "new" / "record.json"
    done = command("run", "--json", file)
    assert done.exit_code == 0
    assert "ids's title" in done.output
    assert json.loads(file.read_text())["arms"] == record["arms"]
    assert json.loads(file.read_text())["clients"]["aiohttp"]["version"] == "3"
    assert "ids's title" in command("report", file).output


def test_a_soak_and_a_run_share_a_record_in_either_order(command, tmp_path):
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    for words in (("run", "--json", one), ("soak", "--json", one), ("soak", "--json", other), ("run", "--json", other)):
        assert command(*words).exit_code == 0
    assert json.loads(one.read_text()) == json.loads(other.read_text())
    assert set(json.loads(one.read_text())["soak"]) == {"ids", "prefix"}


def test_another_benchmarks_record_is_left_alone(command, tmp_path):
    file = tmp_path / "real.json"
    file.write_text('{"benchmark": "real"}')
    done = command("soak", "--json", file)
    assert done.exit_code == 2
    assert file.read_text() == '{"benchmark": "real"}'


def test_libraries_that_are_not_installed_are_named(command, monkeypatch):
    monkeypatch.setattr(cli, "installed", lambda: {"aiohttp": "3"})
    assert "Not installed: httpx, httpx2, niquests." in command("clients").output


def test_a_kind_of_agents_that_there_is_not_is_named(command):
    done = command("soak", "--kinds", "ids,user")
    assert done.exit_code == 2
    assert "unknown kind 'user'" in done.output


def test_a_record_without_a_measurement_has_no_report(command, tmp_path):
    assert command("soak", "--json", tmp_path / "soak.json").exit_code == 0
    done = command("report", tmp_path / "soak.json")
    assert done.exit_code == 2
    assert "holds no measurement" in done.output
