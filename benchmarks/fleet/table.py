"""The figures of all batches side by side, for the terminal and for pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["columns", "lines", "markdown"]

_ROWS = (
    ("agents", "agents", "{:,}"),
    ("faster than one engine", "speedup", "{:.2f}x"),
    ("more agents than the mean, fuller engine", "imbalance", "{:.1%}"),
    ("more tokens than the mean, busier engine", "work_imbalance", "{:.1%}"),
    ("hit rate, one engine with half the agents", "hit_alone", "{:.1%}"),
    ("hit rate, two", "hit_two", "{:.1%}"),
    ("one has died: pace of two", "pace_dead", "{:.2f}"),
    ("one has joined: pace of two", "pace_joined", "{:.2f}"),
    ("agents whose prefix was lost", "dead_engine_agents", "{:,}"),
    ("of it, computed again", "paid", "{:.0%}"),
    ("of these agents, paid for a second move", "paid_twice", "{:,}"),
    ("most moves of one agent away from a prefix", "most_moves", "{:,}"),
)


def columns(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What each batch is called."""
    return [f"{record['workload']}, seed {record['seed']}" for record in records]


def lines(records: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Each figure's name, and the figure of each batch."""
    return [(name, [form.format(record[field]) for record in records]) for name, field, form in _ROWS]


def markdown(records: Sequence[Mapping[str, Any]]) -> str:
    """A record as a table."""
    head = ["", *columns(records)]
    out = [f"| {' | '.join(head)} |", f"|---|{'---:|' * len(records)}"]
    out += [f"| {' | '.join([name, *figures])} |" for name, figures in lines(records)]
    engines = ", ".join(sorted({record["engine"] for record in records}))
    out += ["", f"- Two engines of {engines}, in virtual time. Pace: tokens generated over the same part of the batch."]
    return "\n".join(out) + "\n"
