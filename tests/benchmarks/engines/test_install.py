"""The engine's own environment: made once, made again when it must be, and whole or not used."""

import re

import pytest

from benchmarks.engines.sglang_cpu import install
from benchmarks.engines.wire import EngineError


class Steps:
    """Stands in for venv and pip: remembers what was to be run, and makes an interpreter."""

    def __init__(self) -> None:
        self.commands = []
        self.fail_at = None

    def run(self, command, output):
        self.commands.append(command)
        if "venv" in command:
            python = install.python_of(install.Path(command[-1]))
            python.parent.mkdir(parents=True)
            python.touch()
        if self.fail_at is not None and len(self.commands) > self.fail_at:
            install.os.write(output, b"ERROR: no such package\n")
            return 1
        return 0


@pytest.fixture
def steps(monkeypatch):
    steps = Steps()
    monkeypatch.setattr(install, "_run", steps.run)
    return steps


def ignore(text):
    pass


def test_it_is_installed_once(steps, tmp_path):
    said = []
    first = install.ensure_installed(tmp_path / "home", said.append)
    again = install.ensure_installed(tmp_path / "home", said.append)
    assert first == again == tmp_path / "home" / "venv" / "bin" / "python"
    assert len(steps.commands) == 3
    assert len(said) == 1
    assert "3.4 GB" in said[0]


def test_torch_comes_first_and_with_its_own_requirements_the_rest_exactly_as_pinned(steps, tmp_path):
    install.ensure_installed(tmp_path, ignore)
    _, torch, rest = steps.commands
    assert re.fullmatch(r"torch==[\d.]+", torch[-1])
    assert "--no-deps" not in torch
    assert "--no-deps" in rest
    assert rest[-2:] == ["--requirement", str(install.REQUIREMENTS)]


def test_other_pins_make_it_anew(steps, tmp_path, monkeypatch):
    install.ensure_installed(tmp_path, ignore)
    other = tmp_path / "other.txt"
    other.write_text("torch==9.9\n")
    monkeypatch.setattr(install, "REQUIREMENTS", other)
    install.ensure_installed(tmp_path, ignore)
    assert len(steps.commands) == 6
    assert steps.commands[4][-1] == "torch==9.9"


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_failed_installation_is_told_with_its_log_and_made_anew_next_time(steps, tmp_path, step):
    steps.fail_at = step
    with pytest.raises(EngineError, match=r"(?s)no such package.*install\.log"):
        install.ensure_installed(tmp_path, ignore)
    steps.fail_at = None
    steps.commands.clear()
    install.ensure_installed(tmp_path, ignore)
    assert len(steps.commands) == 3


def test_an_interrupted_installation_is_not_taken_for_a_whole_one(steps, tmp_path, monkeypatch):
    def interrupted(command, output):
        steps.run(command, output)
        raise KeyboardInterrupt

    monkeypatch.setattr(install, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        install.ensure_installed(tmp_path, ignore)
    monkeypatch.setattr(install, "_run", steps.run)
    steps.commands.clear()
    install.ensure_installed(tmp_path, ignore)
    assert len(steps.commands) == 3


def test_a_venv_that_was_removed_is_made_anew(steps, tmp_path):
    install.ensure_installed(tmp_path, ignore).unlink()
    install.ensure_installed(tmp_path, ignore)
    assert len(steps.commands) == 6


def test_a_program_really_runs_and_its_output_goes_to_the_log(tmp_path):
    with (tmp_path / "log").open("w") as log:
        assert install._run(["sh", "-c", "echo out; echo err >&2; exit 4"], log.fileno()) == 4
    assert sorted((tmp_path / "log").read_text().split()) == ["err", "out"]


def test_every_requirement_is_pinned_and_what_the_shims_replace_is_not_among_them():
    lines = [line for line in install.REQUIREMENTS.read_text().splitlines() if not line.startswith("#")]
    names = [re.fullmatch(r"([A-Za-z0-9_.-]+)==\S+", line)[1] for line in lines]
    assert len(set(names)) == len(names)
    assert "sglang==0.5.23" in lines
    assert not {"sgl_kernel", "sgl-kernel", "torchvision", "torchaudio"} & set(names)
