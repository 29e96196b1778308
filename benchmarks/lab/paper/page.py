"""The tables on the page ``docs/lab/paper.md``, between its marks."""

from __future__ import annotations

import re

from benchmarks.lab.paper.plan import FULL
from benchmarks.lab.paper.sheets import sheets
from benchmarks.lab.paper.summary import Summary
from benchmarks.lab.tables import markdown

__all__ = ["filled", "provenance"]

_MARKED = re.compile(r"(<!-- results:lab_paper -->\n).*?(<!-- /results:lab_paper -->)", re.DOTALL)


def filled(page: str, summary: Summary) -> str:
    """``page`` with the tables between its marks made anew.

    Raises:
        ValueError: it has no such marks.
    """
    if not _MARKED.search(page):
        raise ValueError("no <!-- results:lab_paper --> ... <!-- /results:lab_paper --> in the page")
    body = "\n".join(["", *(f"- {line}" for line in provenance(summary)), "", markdown(sheets(summary)).rstrip(), ""])
    return _MARKED.sub(lambda match: f"{match[1]}{body}\n{match[2]}", page)


def provenance(summary: Summary) -> list[str]:
    """What the figures are of, and how long they took."""
    records, scale = summary.records, summary.scale
    lost = sum(record.lost or 0 for record in records)
    failures = [record for record in records if record.error is not None]
    missing = len(scale.cells()) - len(records)
    steps, minutes = sum(record.steps or 0 for record in records), sum(record.wall_s or 0.0 for record in records) / 60
    batches = f"{scale.qwen} agents with Qwen3-32B, {', '.join(map(str, scale.deepseek))} with DeepSeek-V3"
    lines = [
        f"{len(records)} cells, {steps:,} steps of agents, {minutes:.0f} minutes, one at a time; {lost} agents lost.",
        f"Workload, where nothing else is said: `{scale.workload}`; {batches}.",
    ]
    if scale != FULL:
        lines.append("This is the small scale: it shows that everything runs, and its figures mean nothing.")
    if missing:
        lines.append(f"{missing} cells have not been run: ? in the tables.")
    if failures:
        lines.append(f"{len(failures)} cells failed, the first ({failures[0].arm}): {failures[0].error}.")
    versions = list(dict.fromkeys(record.code for record in records))
    if len(versions) > 1:
        lines.append(f"The cells were run by {len(versions)} versions of the code: {', '.join(versions)}.")
    return lines
