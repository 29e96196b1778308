"""An environment of its own for Dynamo: its pins are nobody else's business."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["HOME", "DynamoError", "install", "installed", "versions"]

HOME = Path(".cache/dynamo")
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


class DynamoError(RuntimeError):
    """Dynamo is not there, or did not do what it was asked to."""


def versions() -> dict[str, str]:
    """The pinned packages and their versions."""
    lines = (line for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if "==" in line)
    return {name: version for name, _, version in (line.partition("==") for line in lines)}


def installed(home: Path = HOME) -> Path | None:
    """Interpreter of the environment under ``home``; None where it is not there, or has other versions."""
    python, done = home / "venv" / "bin" / "python", home / "installed"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    return python if python.exists() and done.exists() and done.read_text(encoding="utf-8") == wanted else None


def install(home: Path = HOME) -> Path:
    """Make the environment where it is not there yet: some 10 s and 200 MB, from PyPI.

    Returns:
        Its interpreter.

    Raises:
        DynamoError: with the end of what the installer said.
    """
    if python := installed(home):
        return python
    venv = home / "venv"
    _run([sys.executable, "-m", "venv", "--clear", str(venv)])
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    _run([*pip, "--no-deps", "--requirement", str(REQUIREMENTS)])
    (home / "installed").write_text(REQUIREMENTS.read_text(encoding="utf-8"), encoding="utf-8")
    return venv / "bin" / "python"


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DynamoError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
