"""One page that shows and explains a run, or several; it needs no other file, no network and no script."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from benchmarks.swebench.arms import meaning_of
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.records import RunFolder
from benchmarks.swebench.report.notes import own_shares, paced_by_this_machine
from benchmarks.swebench.report.pictures import Picture, draw_pictures
from benchmarks.swebench.report.statistics import Interval, ratio_interval

__all__ = ["write_page"]

BASELINE = "uncontrolled"

_TEMPLATES = Environment(
    loader=PackageLoader("benchmarks.swebench.report", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def write_page(runs_with_summaries: Sequence[tuple[RunFolder, Mapping[str, Any]]], path: Path) -> list[Picture]:
    """Write the page of these runs, each with its summary; return the pictures in it.

    Raises:
        RecordError: a folder or a file in it is not what a run writes.
        OSError: it cannot be written.
    """
    pictures = [tuple(draw_pictures(folder, summary)) for folder, summary in runs_with_summaries]
    runs = [_run(*run, drawn) for run, drawn in zip(runs_with_summaries, pictures, strict=True)]
    page = _TEMPLATES.get_template("page.html").render(
        runs=runs, made=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
    )
    path.write_text(page, encoding="utf-8")
    return [picture for drawn in pictures for picture in drawn]


def _run(folder: RunFolder, summary: Mapping[str, Any], pictures: Sequence[Picture]) -> dict[str, Any]:
    """What the template is told of one run."""
    arms = {name: _arm(name, arm, summary["arms"].get(BASELINE)) for name, arm in summary["arms"].items()}
    return {
        "name": folder.path.name,
        "summary": summary,
        "config": RunConfig.from_json(summary["config"]).to_json(),  # with what runs of older versions did not choose
        "arms": arms,
        "best": _best(arms),
        "paced": paced_by_this_machine(summary["arms"]),
        "own": {name: own_shares(arm, summary.get("cpus") or 1) for name, arm in summary["arms"].items()},
        "meanings": {name: meaning_of(name) for name in arms},
        "pictures": [
            {"kind": one.kind, "light": _data(one.light, one.form), "dark": _data(one.dark, one.form)}
            for one in pictures
        ],
        "engines": sorted({name for run in _repeats(summary) if (name := run["engine"])}),
        "flags": {
            name: " ".join(flags)
            for name, arm in summary["arms"].items()
            if (flags := arm["repeats"][0].get("engine_flags"))
        },
    }


def _repeats(summary: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for arm in summary["arms"].values():
        yield from arm["repeats"]


def _arm(name: str, arm: Mapping[str, Any], baseline: Mapping[str, Any] | None) -> dict[str, Any]:
    return {**arm, "ratio": None if name == BASELINE or baseline is None else _ratio(arm, baseline)}


def _ratio(arm: Mapping[str, Any], baseline: Mapping[str, Any]) -> Interval | None:
    """Of the baseline's makespan to the arm's, within each repeat that compares."""
    return ratio_interval(
        [
            base["makespan_s"] / run["makespan_s"]
            for run, base in zip(arm["repeats"], baseline["repeats"], strict=False)
            if all(one["complete"] and not one["resumed"] and one["makespan_s"] for one in (run, base))
        ]
    )


def _best(arms: Mapping[str, Mapping[str, Any]]) -> tuple[str, Interval] | None:
    """The fastest arm, if it is faster than without control beyond what repeats scatter."""
    known = [(name, arm["ratio"]) for name, arm in arms.items() if arm["ratio"] is not None]
    if not known:
        return None
    name, ratio = max(known, key=lambda one: one[1].mean)
    return (name, ratio) if (ratio.mean if ratio.low is None else ratio.low) > 1 else None


def _data(picture: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
