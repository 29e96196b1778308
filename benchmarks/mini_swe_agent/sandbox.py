"""How mini-swe-agent's bubblewrap environment has to be set so that the tasks' commands run, and see little else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.swebench.sandbox.runtime import ENVIRONMENT, PYTHON

__all__ = ["environment"]

_HOME = "/opt/benchmark"


def environment(repositories: Path, packages: Path, *, timeout_s: float) -> dict[str, Any]:
    """The ``environment:`` section of its configuration.

    Args:
        repositories: folder that commands may read.
        packages: folder of Python packages that tests import.
        timeout_s: wall seconds until a command is killed.
    """
    prefix = Path(sys.base_prefix)
    program = str(prefix / "bin" / PYTHON)
    arguments = ["--cap-drop", "ALL", "--ro-bind", "/usr", "/usr", *_beside_usr()]
    if not prefix.is_relative_to("/usr"):
        arguments += ["--ro-bind", str(prefix), str(prefix)]
    for name in ("python", "python3"):
        arguments += ["--symlink", program, f"{_HOME}/bin/{name}"]
    for folder in (repositories, packages):
        arguments += ["--ro-bind", str(folder), str(folder)]
    arguments += ["--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    arguments += ["--die-with-parent", "--new-session", "--clearenv"]
    variables = {
        **ENVIRONMENT,
        "PATH": f"{_HOME}/bin:/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(packages),
        "BASH_ENV": "",  # the runner's own configuration names a file of SWE-bench's images
    }
    return {
        "environment_class": "bubblewrap",
        "timeout": round(timeout_s),
        "cwd": "",
        "env": variables,
        "wrapper_args": arguments,
    }


def _beside_usr() -> list[str]:
    """``/bin`` and its like, as links where the host has links."""
    parts = []
    for path in map(Path, ("/bin", "/lib", "/lib64")):
        if path.is_symlink():
            parts += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            parts += ["--ro-bind", str(path), str(path)]
    return parts
