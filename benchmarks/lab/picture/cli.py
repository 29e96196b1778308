"""``python -m benchmarks.lab picture``: see what a law does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.lab.arms import parse_arms
from benchmarks.lab.engines import get_engine
from benchmarks.lab.picture.draw import Story, draw
from benchmarks.lab.picture.watch import Moment, watched
from benchmarks.lab.simulate import simulate
from benchmarks.lab.workloads import get_workload

__all__ = ["app", "picture"]

app = typer.Typer(add_completion=False)


@app.command()
def picture(
    out: Annotated[Path, typer.Option(help="PNG or SVG file to draw to.")] = Path("runs/lab.png"),
    workload: Annotated[str, typer.Option(help="One of `workloads`.")] = "react-10",
    engine: Annotated[str, typer.Option(help="One of `engines`.")] = "qwen3-32b-tp2",
    arms: Annotated[str, typer.Option(help="Arms with a controller, from top to bottom.")] = (
        "uncontrolled,concur,budget"
    ),
    seed: Annotated[int, typer.Option(help="Of the batch.")] = 0,
    agents: Annotated[int | None, typer.Option(help="How many; the workload's own number where not said.")] = None,
) -> None:
    """One batch under a few arms over time: tokens held and running, and who has a seat."""
    try:
        chosen, on, batch = parse_arms(arms), get_engine(engine), get_workload(workload).batch(seed, agents)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    stories = []
    for arm in chosen:
        moments: list[Moment] = []
        result = simulate(batch, on, watched(arm, moments.append))
        title = f"{arm.name}: {result.makespan_s:,.0f} s, {result.hit_rate:.0%} of prompts cached"
        stories.append(Story(title=title, moments=moments))
        typer.echo(title)
    out.parent.mkdir(parents=True, exist_ok=True)
    pool = on.config.max_total_tokens
    heading = f"{len(batch.plans)} agents of {workload} on {on.name}, a pool of {pool:,} tokens"
    draw(stories, pool, heading, out)
    typer.echo(f"picture: {out}")
