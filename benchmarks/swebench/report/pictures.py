"""Every picture of a run, in light and in dark, for the page; and each as a PNG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.swebench.records import RunFolder, as_file_name
from benchmarks.swebench.report.charts import draw_agents, draw_caps, draw_makespans, draw_parts
from benchmarks.swebench.report.overtime import draw_over_time, in_bands
from benchmarks.swebench.report.theme import DARK, LIGHT, Theme, as_png, as_svg, darkened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "draw_pictures"]

Draw = Callable[[Theme], "Figure | None"]


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture, drawn."""

    kind: str
    """What it shows; the page has words for each."""
    name: str
    """As a file, without an ending."""
    light: bytes
    dark: bytes
    form: str
    """Of both: ``svg+xml`` or ``png``."""
    _draw: Draw

    def as_png(self) -> bytes:
        """The light one, for a page or a talk."""
        return self.light if self.form == "png" else as_png(self._draw) or b""


def draw_pictures(folder: RunFolder, summary: Mapping[str, Any]) -> Iterator[Picture]:
    """Those that the run has figures for, in the order in which they tell it."""
    for kind, name, draw in _charts(folder, summary):
        if (svg := as_svg(draw)) is not None:
            yield Picture(kind, name, svg, darkened(svg), "svg+xml", draw)
    runs = [run for arm in summary["arms"].values() for run in arm["repeats"]]
    end = max((run["makespan_s"] or 0.0 for run in runs), default=0.0)
    for name in summary["arms"]:
        # Thousands of bars an arm: as an SVG they are megabytes.
        draw = partial(draw_agents, folder, name, end)
        light, dark = as_png(draw, LIGHT), as_png(draw, DARK)
        if light is not None and dark is not None:
            yield Picture("agents", f"agents-{as_file_name(name)}", light, dark, "png", draw)


def _charts(folder: RunFolder, summary: Mapping[str, Any]) -> Iterator[tuple[str, str, Draw]]:
    """Kind, name, and what draws it."""
    yield "makespans", "makespans", partial(draw_makespans, summary)
    yield "parts", "parts", partial(draw_parts, summary)
    for number, names in enumerate(in_bands(folder, summary), 1):
        yield "over time", f"over-time-{number}", partial(draw_over_time, folder, summary, names)
    yield "caps", "caps", partial(draw_caps, summary)
