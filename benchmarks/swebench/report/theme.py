"""Colours of the pictures, on light and on dark paper, and how a figure becomes bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DARK", "LIGHT", "Theme", "as_png", "as_svg", "darkened", "new_figure", "styled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """One set of colours, each told apart from the others by people who see few of them."""

    paper: str
    ink: str
    faint: str
    grid: str
    occupied: str
    pinned: str
    hit: str
    window: str
    seated: str
    generating: str
    waits: str
    queue: str
    prefill: str
    recomputed: str
    decode: str
    tool: str
    bar: str
    ours: str


LIGHT = Theme(
    paper="#ffffff",
    ink="#22262b",
    faint="#6b7280",
    grid="#e5e7eb",
    occupied="#c7d9ee",
    pinned="#2f6db5",
    hit="#2a8c6a",
    window="#b4552d",
    seated="#f3d9c7",
    generating="#e0a37c",
    waits="#d7dbe0",
    queue="#9aa3ad",
    prefill="#7fb2e5",
    recomputed="#c2452d",
    decode="#2f6db5",
    tool="#8fc3a7",
    bar="#9fb6cf",
    ours="#2f6db5",
)
DARK = Theme(
    paper="#15181c",
    ink="#e6e9ed",
    faint="#9aa3ad",
    grid="#2c3138",
    occupied="#28415f",
    pinned="#6aa5e8",
    hit="#5cc49c",
    window="#e08a5f",
    seated="#55392b",
    generating="#a86f4c",
    waits="#3a4048",
    queue="#6b7480",
    prefill="#3f6f9f",
    recomputed="#e0664c",
    decode="#6aa5e8",
    tool="#4f8a6c",
    bar="#4a5f78",
    ours="#6aa5e8",
)


@contextmanager
def styled(theme: Theme) -> Iterator[None]:
    """Figures that are made and saved in the block have these colours."""
    import matplotlib as mpl

    style: Any = {
        "font.size": 9.0,
        "svg.fonttype": "none",  # text stays text: a tenth of the size
        "font.family": "sans-serif",
        "text.color": theme.ink,
        "figure.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "savefig.facecolor": theme.paper,
        "axes.edgecolor": theme.grid,
        "axes.labelcolor": theme.ink,
        "xtick.color": theme.faint,
        "ytick.color": theme.faint,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": theme.grid,
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "legend.facecolor": theme.paper,
        "legend.edgecolor": "none",
        "legend.labelcolor": theme.ink,
        "svg.hashsalt": "concur",  # the same figure is the same bytes
    }
    with mpl.rc_context(style):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches. Without pyplot: no global state, no backend to choose, nothing to close."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def as_png(draw: Callable[[Theme], Figure | None], theme: Theme = LIGHT) -> bytes | None:
    """What ``draw`` draws, as a PNG; None when there is nothing to draw."""
    return _saved(draw, theme, format="png", dpi=150)


def as_svg(draw: Callable[[Theme], Figure | None]) -> bytes | None:
    """The same as an SVG, in light colours."""
    return _saved(draw, LIGHT, format="svg", metadata={"Date": None})


def darkened(svg: bytes) -> bytes:
    """An SVG of ours in dark colours, without drawing it again."""
    dark = {getattr(LIGHT, name).encode(): colour.encode() for name, colour in asdict(DARK).items()}
    return re.sub(rb"#[0-9a-f]{6}", lambda found: dark.get(found[0], found[0]), svg)


def _saved(draw: Callable[[Theme], Figure | None], theme: Theme, **how: Any) -> bytes | None:
    with styled(theme):
        figure = draw(theme)
        if figure is None:
            return None
        out = io.BytesIO()
        figure.savefig(out, **how)
        return out.getvalue()
