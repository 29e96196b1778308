"""What there is to choose from: the commands ``presets``, ``engines`` and ``tasks``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.engines.kinds import KINDS, listed
from benchmarks.swebench.arms import HOST_CACHE
from benchmarks.swebench.presets import PRESETS
from benchmarks.swebench.rows import HUB, read_rows
from benchmarks.swebench.server import SGLANG_CPU
from benchmarks.swebench.tasks import CACHE, load_tasks
from benchmarks.swebench.terminal import REFUSALS, CacheOption, fail

__all__ = ["list_engines", "list_presets", "list_tasks"]


def list_presets() -> None:
    """List the presets, with what must be started by hand and the paper's seconds where there are any."""
    console = Console(soft_wrap=True, highlight=False)
    for preset in PRESETS.values():
        console.print(Text.assemble((preset.name, "bold"), f"  {preset.about}"))
        console.print(f"  {preset.config.repeats} x {', '.join(preset.config.arms)}")
        if preset.paper:
            console.print("  paper: " + ", ".join(f"{arm} {seconds:g} s" for arm, seconds in preset.paper.items()))
        shown = preset.server or preset.config.server
        for line in () if shown is None else shown.commands():
            console.print(f"  $ {line}")


def list_engines() -> None:
    """List the kinds of engines, and what each is told for an arm."""
    console = Console(soft_wrap=True, highlight=False)
    console.print(Text.assemble(("embedded", "bold"), "  the emulator, started anew for each arm"))
    console.print(Text.assemble(("URL", "bold"), "  an SGLang or vLLM server that runs already; it is asked which"))
    for kind in KINDS.values():
        console.print(Text.assemble((f"launch --server {kind.name}", "bold"), f"  python -m {kind.module}"))
        console.print(f"  always: {' '.join(listed(kind.needed))}")
        console.print(f"  requests:N  {kind.request_cap} N")
        if kind.host_cache is not None:
            console.print(f"  hicache  {' '.join(listed(kind.host_cache(HOST_CACHE)))}")
    console.print(
        Text.assemble(
            (f"launch --server {SGLANG_CPU}", "bold"), "  real SGLang on a CPU, installed at first use (9 minutes)"
        )
    )


def list_tasks(
    source: Annotated[
        str | None, typer.Option(help=f"Rows of SWE-bench's form instead: a file, {', '.join(HUB)}.")
    ] = None,
    cache: CacheOption = CACHE,
) -> None:
    """List the tasks that a run chooses from, or those of a data set with their container images."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    table.add_column("task", no_wrap=True)
    try:
        if source is None:
            table.add_column("report")
            for task in load_tasks(cache):
                table.add_row(task.task_id, task.problem.strip().splitlines()[0])
        else:
            for heading in ("tests to fix", "image"):
                table.add_column(heading, overflow="fold")
            for row in read_rows(source):
                table.add_row(row.instance_id, str(len(row.fail_to_pass)), row.image)
    except REFUSALS as error:
        fail(error)
    Console().print(table)
