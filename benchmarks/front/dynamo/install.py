"""An environment of its own for Dynamo's frontend, router and workers: some 300 MB from PyPI, once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.engines.wire import EngineError

__all__ = ["ensure_installed"]

HOME = Path(".cache/dynamo_router")
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def ensure_installed(home: Path = HOME) -> Path:
    """Its interpreter. Raises EngineError, with the end of what the installer said, where it cannot be made."""
    python, done = (home / "venv" / "bin" / "python").absolute(), home / "installed"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if python.exists() and done.exists() and done.read_text(encoding="utf-8") == wanted:
        return python
    _run([sys.executable, "-m", "venv", "--clear", str(home / "venv")])
    # Exactly what is pinned: ai-dynamo asks for much that only its own engines need.
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    _run([*pip, "--no-deps", "--requirement", str(REQUIREMENTS)])
    done.write_text(wanted, encoding="utf-8")
    return python


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
