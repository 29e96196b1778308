"""How figures are written."""

from __future__ import annotations

from benchmarks.lab.paper.plan import DEEPSEEK, Row

__all__ = ["PAPER", "percent", "row_name", "seconds", "share", "span", "times"]

PAPER = "paper"
"""Names the lines with the paper's values."""


def seconds(value: float | None) -> str:
    """Whole seconds; ? where unknown."""
    return "?" if value is None else f"{value:.0f}"


def times(value: float | None) -> str:
    """A ratio; ? where unknown."""
    return "?" if value is None else f"{value:.2f}x"


def percent(value: float | None) -> str:
    """A share, with one decimal; ? where unknown."""
    return "?" if value is None else f"{value:.1%}"


def share(value: float | None) -> str:
    """A share read off a picture; ? where unknown."""
    return "?" if value is None else f"{value:.0%}"


def span(value: tuple[float, float] | None) -> str:
    """Two shares; ? where unknown."""
    return "?" if value is None else f"{share(value[0])} to {share(value[1])}"


def row_name(row: Row) -> str:
    """Model, agents and cards, as the paper's Table 1 has them."""
    model = "DeepSeek-V3" if row.engine == DEEPSEEK else "Qwen3-32B"
    return f"{model} {row.agents}, TP {row.engine.rpartition('tp')[2]}"
