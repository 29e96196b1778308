"""Environments are made once, and a broken one is never used."""

import subprocess
import sys

import pytest

from benchmarks.frameworks import environments
from benchmarks.frameworks.environments import LINES, InstallError, ensure


@pytest.fixture
def commands(monkeypatch):
    """Every command is taken down, and does what ``outcome`` says in place of running."""
    ran = []

    def run(command, *, stdout, **options):
        ran.append(command)
        stdout.write("no such package\n")
        stdout.flush()  # as a process would
        place = next((part for part in command if part.endswith(LINES[1].key)), None)
        if place is not None:  # the one that makes the environment
            (environments.Path(place) / "bin").mkdir(parents=True)
            (environments.Path(place) / "bin" / "python").touch()
        return subprocess.CompletedProcess(command, run.outcome)

    run.outcome = 0
    run.ran = ran
    monkeypatch.setattr(environments.subprocess, "run", run)
    return run


@pytest.mark.parametrize("uv", [None, "/usr/bin/uv"])
def test_an_environment_is_made_once(commands, monkeypatch, tmp_path, uv):
    monkeypatch.setattr(environments.shutil, "which", lambda name: uv)
    python = ensure(LINES[1], tmp_path)
    assert len(commands.ran) == 2
    assert "agentscope>=2,<3" in commands.ran[1]
    assert ensure(LINES[1], tmp_path) == python
    assert len(commands.ran) == 2


def test_other_requirements_make_it_anew(commands, monkeypatch, tmp_path):
    ensure(LINES[1], tmp_path)
    monkeypatch.setattr(environments, "COMMON", ("something>=2",))
    ensure(LINES[1], tmp_path)
    assert len(commands.ran) == 4


def test_what_went_wrong_is_shown_and_what_is_there_not_used(commands, tmp_path):
    commands.outcome = 1
    with pytest.raises(InstallError, match=r"(?s)installing AgentScope 2\.x failed: .*no such package"):
        ensure(LINES[1], tmp_path)
    commands.outcome = 0
    ensure(LINES[1], tmp_path)
    assert len(commands.ran) == 3


def test_each_framework_has_an_environment_of_its_own():
    assert len({line.key for line in LINES}) == len(LINES) == 3
    assert sys.executable not in {line.key for line in LINES}
