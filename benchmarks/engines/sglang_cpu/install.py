"""An environment of its own for the real engine: its pins would fight with everybody else's."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.engines.process import LOG_LINES
from benchmarks.engines.sglang_cpu.model import write_model
from benchmarks.engines.wire import EngineError

__all__ = ["ensure_installed", "ensure_model", "python_of"]

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
DONE = "installed"
"""Written last, with the hash of the requirements: an installation that was broken off, or is of other pins, is not
used."""


def ensure_installed(home: Path, say: Callable[[str], None]) -> Path:
    """Interpreter of an environment with SGLang; made if it is not there yet (about 9 minutes, 3.4 GB).

    Args:
        home: folder for environment and log.
        say: told what takes long.

    Raises:
        EngineError: the installation failed; the message has the end of its log.
    """
    home.mkdir(parents=True, exist_ok=True)
    with _alone(home):
        python, done = python_of(home / "venv"), home / DONE
        wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
        if python.exists() and done.exists() and done.read_text().strip() == wanted:
            return python
        log = home / "install.log"
        say(f"installing SGLang for CPU into {home}: about 9 minutes and 3.4 GB, once (log: {log})")
        done.unlink(missing_ok=True)
        shutil.rmtree(home / "venv", ignore_errors=True)
        with log.open("w") as stream:
            for command in _steps(home / "venv", _version_pinned("torch")):
                if _run(command, stream.fileno()):
                    raise EngineError(f"installing failed: {' '.join(command)}\n{_tail(log)}\nsee {log}")
        done.write_text(wanted + "\n")
        return python


def ensure_model(home: Path) -> Path:
    """The model's folder under ``home``, written anew: it takes no time, and is then always this version's."""
    write_model(home / "model")
    return home / "model"


def python_of(environment: Path) -> Path:
    """The interpreter of a virtual environment."""
    return environment / "bin" / "python"


def _steps(venv: Path, torch: str) -> Iterator[Sequence[str]]:
    pip = [str(python_of(venv)), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    yield [sys.executable, "-m", "venv", str(venv)]
    # torch first and with what it needs, which depends on the build: the small one for CPUs where an index offers it
    # (PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu), else the one on PyPI with CUDA's libraries.
    yield [*pip, torch]
    # The rest exactly as pinned, and nothing else: SGLang also asks for CUDA-only packages that have no use here.
    yield [*pip, "--no-deps", "--requirement", str(REQUIREMENTS)]


def _version_pinned(package: str) -> str:
    return next(line for line in REQUIREMENTS.read_text().splitlines() if line.startswith(f"{package}=="))


def _run(command: Sequence[str], output: int) -> int:
    """Exit code. An interrupt ends the program, too, and is then passed on."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment) as process:
        try:
            return process.wait()
        except BaseException:  # an interrupt above all: the program must not go on alone
            process.terminate()
            raise


@contextlib.contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Two benchmarks started at once install once; the second waits. A killed one leaves no lock behind."""
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _tail(log: Path) -> str:
    return "\n".join(f"  {line[:300]}" for line in log.read_text(errors="replace").splitlines()[-LOG_LINES:])
