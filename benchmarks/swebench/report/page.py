"""One page that shows and explains a run, or several; it needs no other file, no network and no script."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.records import RunFolder
from benchmarks.swebench.report.charts import draw_agents, draw_caps, draw_makespans, draw_parts
from benchmarks.swebench.report.overtime import draw_over_time
from benchmarks.swebench.report.statistics import Interval, ratio_interval
from benchmarks.swebench.report.theme import DARK, LIGHT, Theme, as_png, as_svg, darkened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_page"]

BASELINE = "uncontrolled"

_TEMPLATES = Environment(
    loader=PackageLoader("benchmarks.swebench.report", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def write_page(runs_with_summaries: Sequence[tuple[RunFolder, Mapping[str, Any]]], path: Path) -> None:
    """Write the page of these runs, each with its summary.

    Raises:
        RecordError: a folder or a file in it is not what a run writes.
        OSError: it cannot be written.
    """
    runs = [_run(folder, summary) for folder, summary in runs_with_summaries]
    page = _TEMPLATES.get_template("page.html").render(
        runs=runs, made=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC"
    )
    path.write_text(page, encoding="utf-8")


def _run(folder: RunFolder, summary: Mapping[str, Any]) -> dict[str, Any]:
    """What the template is told of one run."""
    arms = {name: _arm(name, arm, summary["arms"].get(BASELINE)) for name, arm in summary["arms"].items()}
    return {
        "name": folder.path.name,
        "summary": summary,
        "config": RunConfig.from_json(summary["config"]).to_json(),  # with what runs of older versions did not choose
        "arms": arms,
        "best": _best(arms),
        "pictures": list(_pictures(folder, summary)),
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


def _pictures(folder: RunFolder, summary: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Each in both colours; the template says what is to be seen in it."""
    charts: tuple[tuple[str, Callable[[Theme], Figure | None]], ...] = (
        ("makespans", partial(draw_makespans, summary)),
        ("parts", partial(draw_parts, summary)),
        ("over time", partial(draw_over_time, folder, summary)),
        ("caps", partial(draw_caps, summary)),
    )
    for kind, draw in charts:
        svg = as_svg(draw)
        if svg is not None:
            yield {"kind": kind, "light": _data(svg, "svg+xml"), "dark": _data(darkened(svg), "svg+xml")}
    end = max((run["makespan_s"] or 0.0 for run in _repeats(summary)), default=0.0)
    for name in summary["arms"]:
        # Thousands of bars an arm: as an SVG they are megabytes.
        light, dark = (as_png(partial(draw_agents, folder, name, end), theme) for theme in (LIGHT, DARK))
        if light is not None and dark is not None:
            yield {"kind": "agents", "light": _data(light, "png"), "dark": _data(dark, "png")}


def _data(picture: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
