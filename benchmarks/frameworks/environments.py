"""An environment for each framework: the two AgentScope lines exclude each other, and none is to see another."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LINES", "ROOT", "InstallError", "Line", "ensure"]

ROOT = Path(__file__).resolve().parents[2]
DONE = "installed"
"""Written last, with a hash of what was asked for: what was broken off, or is of other requirements, is made anew."""
LOG_LINES = 20


class InstallError(Exception):
    """An environment could not be made. The message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Line:
    """A framework in one of its major versions."""

    key: str
    """As it is called on the command line and in the record."""
    title: str
    framework: str
    """What ``benchmarks.swebench run --framework`` is told."""
    adapter: str
    """Folder of Concur's adapter under ``integrations/``."""
    requirements: tuple[str, ...]


LINES = (
    Line("langgraph", "LangGraph", "langgraph", "concur-agents-langgraph", ("langchain>=1.3", "langchain-openai>=1.1")),
    Line("agentscope-2", "AgentScope 2.x", "agentscope", "concur-agents-agentscope", ("agentscope>=2,<3",)),
    Line(
        "agentscope-1",
        "AgentScope 1.x",
        "agentscope",
        "concur-agents-agentscope",
        # It bounds none of these and works with none that are newer; the last two it forgets to ask for.
        ("agentscope>=1,<2", "mcp<2", "openai<3", "greenlet", "tqdm"),
    ),
)
COMMON = ("anyio>=4.8", "asyncio-throttle>=1.0", "jinja2>=3.1", "matplotlib>=3.9", "pydantic>=2.10")
"""What the benchmark needs besides the emulator."""


def ensure(line: Line, home: Path) -> Path:
    """Interpreter of the line's environment; made if it is not there yet (some seconds with uv, else a minute).

    Args:
        line: which.
        home: folder of all environments.

    Raises:
        InstallError: the installation failed.
    """
    place = (home / line.key).resolve()
    python, done, log = place / "bin" / "python", place / DONE, home / f"{line.key}.log"
    wanted = _wanted(line)
    if python.exists() and done.exists() and done.read_text() == wanted:
        return python
    home.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(place, ignore_errors=True)
    with log.open("w") as stream:
        for command in _commands(line, place, python):
            if subprocess.run(command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT, check=False).returncode:
                end = "\n".join(log.read_text(errors="replace").splitlines()[-LOG_LINES:])
                raise InstallError(f"installing {line.title} failed: {' '.join(command)}\n{end}\nsee {log}")
    done.write_text(wanted)
    return python


def _commands(line: Line, place: Path, python: Path) -> Iterator[Sequence[str]]:
    packages = ["-e", ".[emulator]", "-e", f"integrations/{line.adapter}", *COMMON, *line.requirements]
    if uv := shutil.which("uv"):
        yield [uv, "venv", "--quiet", "--python", sys.executable, str(place)]
        yield [uv, "pip", "install", "--quiet", "--python", str(python), *packages]
    else:
        yield [sys.executable, "-m", "venv", str(place)]
        yield [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]


def _wanted(line: Line) -> str:
    """Changes when anything does that the installation read."""
    projects = (ROOT / "pyproject.toml", ROOT / "integrations" / line.adapter / "pyproject.toml")
    parts = [sys.version, *COMMON, *line.requirements, *(path.read_text() for path in projects)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
