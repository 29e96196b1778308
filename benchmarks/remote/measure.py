"""A controller process and processes of agents: started, measured, ended."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.machine import describe

__all__ = ["Load", "measure", "row"]

_PATIENCE_S = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")
_PACKAGES = ("aiohttp",)


class Load:
    """Who steps, and how often.

    Args:
        agents: of all processes together.
        processes: that they are spread over.
        pause_s: seconds between an agent's steps, on average.
    """

    def __init__(self, agents: int, processes: int, pause_s: float) -> None:
        self.agents, self.processes, self.pause_s = agents, min(processes, agents), pause_s

    def shares(self) -> list[int]:
        """Agents of each process."""
        return [len(range(number, self.agents, self.processes)) for number in range(self.processes)]


def measure(loads: Sequence[Load], seconds: float) -> dict[str, Any]:
    """Each load for so many seconds; everything that the table is made of."""
    machine = describe() | {"packages": {name: importlib.metadata.version(name) for name in _PACKAGES}}
    return {"machine": machine, "seconds": seconds, "rows": [row(each, seconds) for each in loads]}


def row(load: Load, seconds: float) -> dict[str, Any]:
    """One load on a controller of its own."""
    with _controller() as (url, controller), contextlib.ExitStack() as stack:
        first, workers = 0, []
        for share in load.shares():
            workers.append(stack.enter_context(_worker(url, first, share, seconds, load.pause_s)))
            first += share
        for worker in workers:
            _line(worker)
        cpu_s = _cpu_s(controller.pid)
        for worker in workers:
            assert worker.stdin is not None  # noqa: S101 - a pipe
            worker.stdin.write("go\n")
            worker.stdin.flush()
        said = [json.loads(_line(worker)) for worker in workers]
        cpu_s = _cpu_s(controller.pid) - cpu_s
    costs = sorted(cost for each in said for cost in each["costs"])
    if len(costs) < 2:
        raise RuntimeError(f"{len(costs)} steps were measured: give it more seconds")
    return {
        "agents": load.agents,
        "processes": load.processes,
        "pause_s": load.pause_s,
        "steps": len(costs),
        "steps_per_s": len(costs) / seconds,
        "p50_ms": median(costs) * 1e3,
        "p99_ms": quantiles(costs, n=100)[98] * 1e3,
        "controller_us": cpu_s / len(costs) * 1e6,
        "worker_us": sum(each["cpu_s"] for each in said) / len(costs) * 1e6,
    }


@contextlib.contextmanager
def _controller() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = ["concur_agents.cli", "serve", "--engine", "http://127.0.0.1:9", "--port", "0", "--law", "uncontrolled"]
    with _process(*command, quiet=True) as process:
        yield _line(process), process


@contextlib.contextmanager
def _worker(url: str, first: int, agents: int, seconds: float, pause_s: float) -> Iterator[subprocess.Popen[str]]:
    options = {"--url": url, "--first": first, "--agents": agents, "--seconds": seconds, "--pause": pause_s}
    with _process("benchmarks.remote.worker", *(str(part) for pair in options.items() for part in pair)) as process:
        yield process


@contextlib.contextmanager
def _process(module: str, *options: str, quiet: bool = False) -> Iterator[subprocess.Popen[str]]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("CONCUR_")}
    with subprocess.Popen(
        [sys.executable, "-m", module, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        text=True,
        env=env,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None  # noqa: S101 - a pipe
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args!r} ended with {process.wait(_PATIENCE_S)}")
    return line.strip()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
