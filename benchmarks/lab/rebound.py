"""``python -m benchmarks.lab bounds``: lower bounds anew, in a file of records whose cells stay as they ran.

A bound depends on the batch and the engine only, so where it becomes tighter nothing has to be simulated again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.lab.bounds import lower_bound_s
from benchmarks.lab.cells import Record
from benchmarks.lab.engines import get_engine
from benchmarks.lab.records import read_records
from benchmarks.lab.workloads import get_workload

__all__ = ["app", "rebound"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def rebound(records: Sequence[Record]) -> list[Record]:
    """The same cells with the bounds that hold by now; cells of users' own recordings, which are not here, as they are.

    Raises:
        ValueError: there is no such workload or engine any more.
    """

    @cache
    def bound(workload: str, engine: str, seed: int, agents: int) -> float:
        return lower_bound_s(get_workload(workload).batch(seed, agents), get_engine(engine))

    return [
        record
        if record.trace is not None or record.lower_bound_s is None
        else replace(record, lower_bound_s=bound(record.workload, record.engine, record.seed, record.agents))
        for record in records
    ]


@app.command()
def bounds(file: Annotated[Path, typer.Argument(help="A file that `run` wrote.")]) -> None:
    """Compute the lower bounds of a file's cells anew: some seconds a batch."""
    before = read_records(file)
    after = rebound(before)
    changed = sum(one != other for one, other in zip(before, after, strict=True))
    if changed:
        part = file.with_name(file.name + ".part")
        part.write_text("".join(json.dumps(asdict(record), allow_nan=False) + "\n" for record in after))
        part.replace(file)
    typer.echo(f"{changed} of {len(after)} cells have another bound")
