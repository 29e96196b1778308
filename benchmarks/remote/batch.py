"""``python -m benchmarks.remote.batch``: frameworks' agents, in several processes, on one shared controller.

Each process has agents of one framework; the controller and the engine are processes of their own, as on hosts of their
own. Shown is that the window holds over all of them, and that everyone ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.engines.emulated import embedded
from benchmarks.engines.wire import fetch

__all__ = ["app", "run"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_LOOK_S = 0.2


@app.command()
def run(
    *,
    agents: Annotated[int, typer.Option(min=2, help="Of all processes together.")] = 1000,
    processes: Annotated[int, typer.Option(min=1, help="Each has agents of one framework, by turns.")] = 4,
    steps: Annotated[int, typer.Option(min=2, help="Of each agent.")] = 4,
    window: Annotated[int, typer.Option(min=1, help="Agents that may be seated at a time.")] = 64,
    frameworks: Annotated[str, typer.Option(help="langgraph, agentscope; commas between.")] = "langgraph,agentscope",
    agentscope_python: Annotated[
        Path, typer.Option(help="Interpreter with AgentScope, its adapter, and the benchmarks' own packages.")
    ] = Path("integrations/concur-agents-agentscope/.tox/bench/bin/python"),
    save: Annotated[Path | None, typer.Option("--json", help="File for the record.")] = None,
) -> None:
    """Run them, and print how they came out. Ends with 1 if an agent did not end, or the window was passed."""
    known = {"langgraph": Path(sys.executable), "agentscope": agentscope_python.absolute()}
    try:
        pythons = {name: known[name] for name in frameworks.split(",")}
    except KeyError as unknown:
        raise typer.BadParameter(f"--frameworks must be of {', '.join(known)}, got {unknown}") from None
    for name, python in pythons.items():
        if not python.exists():
            raise typer.BadParameter(f"--agentscope-python {agentscope_python} does not exist: {name} needs it")
    record = asyncio.run(_measure(agents, processes, steps, window, pythons))
    console = Console(highlight=False)
    for name, value in record.items():
        console.print(f"{name.replace('_', ' '):<26} {value}")
    if save is not None:
        save.write_text(json.dumps(record, indent=1) + "\n")
    if record["ended"] != {"completed": agents} or record["most_seated"] > window or record["left_at_the_controller"]:
        raise typer.Exit(1)


async def _measure(agents: int, processes: int, steps: int, window: int, pythons: dict[str, Path]) -> dict[str, Any]:
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engine = await stack.enter_async_context(
            embedded(preset="qwen3-32b-h100-tp2", pool_tokens=352_000, speedup=10.0, log=folder / "engine.log")
        )
        serve = ("concur_agents.cli", "serve", "--engine", engine.url, "--port", "0", "--law", f"fixed:{window}")
        controller = await stack.enter_async_context(_process(Path(sys.executable), serve))
        assert controller.stdout is not None  # noqa: S101 - a pipe
        url = (await controller.stdout.readline()).decode().strip()
        began, seen = time.monotonic(), Seen()
        looking = asyncio.create_task(seen.look(url))
        try:
            kinds = tuple(pythons)
            shares = [len(range(number, agents, processes)) for number in range(processes)]
            said = await asyncio.gather(
                *(
                    _work(
                        pythons[kind := kinds[number % len(kinds)]],
                        kind,
                        url,
                        engine.url,
                        sum(shares[:number]),
                        share,
                        steps,
                    )
                    for number, share in enumerate(shares)
                )
            )
        finally:
            looking.cancel()
        took = time.monotonic() - began
        left = len((await asyncio.to_thread(fetch, "GET", f"{url}/concur/v1/agents"))["agents"])
    every = [agent for worker in said for agent in worker["ended"]]
    waits = sorted(wait * 1000 for agent in every for wait in agent["waits"])
    errors = Counter(agent["error"] for agent in every if agent["error"])
    return {
        "agents": agents,
        "processes": processes,
        "window": window,
        "ended": dict(Counter(agent["outcome"] for agent in every)),
        "steps": sum(agent["steps"] for agent in every),
        "seconds": round(took, 1),
        "most_seated": seen.most,
        "looks": seen.looks,
        "left_at_the_controller": left,
        "waited_ms_p50": round(median(waits), 2),
        "waited_ms_p99": round(quantiles(waits, n=100)[98], 2),
        "errors": dict(errors.most_common(3)),
    }


class Seen:
    """What the controller says of itself, while agents run."""

    def __init__(self) -> None:
        self.most = self.looks = 0
        """Agents that were seated at a time; times that it was asked."""

    async def look(self, url: str) -> None:
        """Until it is cancelled."""
        while True:
            stats = await asyncio.to_thread(fetch, "GET", f"{url}/concur/v1/stats")
            self.most = max(self.most, stats["population"]["seated"])
            self.looks += 1
            await asyncio.sleep(_LOOK_S)


async def _work(
    python: Path, framework: str, url: str, engine: str, first: int, agents: int, steps: int
) -> dict[str, Any]:
    options = {"--url": url, "--engine": engine, "--framework": framework}
    numbers = {"--first": first, "--agents": agents, "--steps": steps}
    words = [str(part) for pair in (options | numbers).items() for part in pair]
    async with _process(python, ("benchmarks.remote.batch_worker", *words)) as process:
        said, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"a process of {framework} agents ended with {process.returncode}")
        result: dict[str, Any] = json.loads(said)
        return result


@contextlib.asynccontextmanager
async def _process(python: Path, words: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("CONCUR_")}
    process = await asyncio.create_subprocess_exec(
        python, "-m", *words, stdout=asyncio.subprocess.PIPE, env=env, limit=2**26
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


if __name__ == "__main__":
    app()
