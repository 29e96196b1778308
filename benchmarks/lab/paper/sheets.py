"""The paper's tables in its own form: our value, and under it the paper's."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.lab.paper.details import details
from benchmarks.lab.paper.plan import QWEN, Row, threshold_arm
from benchmarks.lab.paper.summary import Summary
from benchmarks.lab.paper.text import PAPER, percent, row_name, seconds, times
from benchmarks.lab.paper.values import TABLE_1, TABLE_2, TABLE_3, Latencies
from benchmarks.lab.tables import Row as Line
from benchmarks.lab.tables import Sheet

__all__ = ["sheets"]

THRESHOLDS = {"u_high": ("U_high", "U_low 0.2"), "u_low": ("U_low", "U_high 0.5")}


def sheets(summary: Summary) -> list[Sheet]:
    """All tables."""
    return [_table_1(summary), _shape(summary), _table_2(summary), *_table_3(summary), *details(summary)]


def _arms(summary: Summary, row: Row) -> tuple[str, str, str, str]:
    """In the order of :class:`Latencies`."""
    return ("uncontrolled", f"requests:{summary.scale.request_cap(row)}", "hicache", "concur")


def _published(values: Latencies) -> tuple[float, float, float, float]:
    return (values.sglang, values.requests, values.hicache, values.concur)


def _table_1(summary: Summary) -> Sheet:
    lines = []
    for row in summary.scale.rows:
        ours = [
            f"{seconds(summary.makespan(row, arm))}"
            + ("" if arm == "uncontrolled" else f" ({times(summary.speedup(row, arm))})")
            for arm in (*_arms(summary, row), "budget")
        ]
        paper = _published(TABLE_1[row.engine, row.published])
        theirs = [
            seconds(value) + (f" ({times(paper[0] / value)})" if place else "") for place, value in enumerate(paper)
        ]
        lines += [Line((row_name(row), *ours)), Line((PAPER, *theirs, ""), "dim")]
    headings = ("s (times as fast)", "SGLang", "+ request control", "+ HiCache", "Concur", "budget")
    caps = ", ".join(str(summary.scale.request_cap(row)) for row in summary.scale.rows)
    what = (
        f"Request control: as many requests as the pool holds at their mean final context, row by row {caps}. "
        "HiCache: host memory of twice the pool, SGLang's default. Concur: the paper's law, its thresholds, 1 s tick, "
        "no first limit. Budget: this project's default law, which the paper does not have."
    )
    seeds = f"DeepSeek-V3: means of {summary.scale.deepseek_seeds} seeds. Qwen3-32B: one seed."
    notes = (what, seeds)
    return Sheet("Table 1: end-to-end latency", headings, tuple(lines), notes)


def _shape(summary: Summary) -> Sheet:
    """How far Table 1 has the paper's shape."""
    lines = []
    for place, name in ((1, "+ request control"), (2, "+ HiCache"), (3, "Concur")):
        pairs = []
        for row in summary.scale.rows:
            ours = summary.speedup(row, _arms(summary, row)[place])
            paper = _published(TABLE_1[row.engine, row.published])
            if ours is not None:
                pairs.append((ours, paper[0] / paper[place]))
        same = sum((ours >= 1) == (theirs >= 1) for ours, theirs in pairs)
        near = sum(2 / 3 <= ours / theirs <= 1.5 for ours, theirs in pairs)
        lines.append(
            Line(
                (
                    name,
                    ", ".join(times(ours) for ours, _ in pairs),
                    ", ".join(times(theirs) for _, theirs in pairs),
                    f"{same} of {len(pairs)}",
                    f"{near} of {len(pairs)}",
                )
            )
        )
    first = 0
    for row in summary.scale.rows:
        arms = _arms(summary, row)
        first += summary.best(row, arms) == "concur"
    note = f"Concur is the fastest of the four in {first} of {len(summary.scale.rows)} rows; in the paper in all."
    headings = ("times as fast as SGLang", "here", "paper", "same side of 1", "within a factor of 1.5")
    return Sheet("Table 1: its shape", headings, tuple(lines), (note,))


def _table_2(summary: Summary) -> Sheet:
    lines = []
    for row in summary.scale.rows[len(QWEN) :]:
        none, capped, host, law = (percent(summary.hit_rate(row, arm)) for arm in _arms(summary, row))
        ours = percent(summary.hit_rate(row, "budget"))
        paper = TABLE_2[row.published]
        theirs = (paper.sglang, paper.hicache, paper.requests, paper.concur)
        lines += [
            Line((f"{row.agents} agents", none, host, capped, law, ours)),
            Line((PAPER, *(percent(value) for value in theirs), ""), "dim"),
        ]
    headings = ("DeepSeek-V3", "SGLang", "HiCache", "request control", "Concur", "budget")
    return Sheet("Table 2: KV-cache hit rate", headings, tuple(lines))


def _table_3(summary: Summary) -> Iterator[Sheet]:
    rows = summary.scale.rows[: len(QWEN)]
    for name, values in TABLE_3.items():
        what, other = THRESHOLDS[name]
        lines = []
        for value, paper in values.items():
            ours = _thresholds(summary, threshold_arm(name, value), "concur")
            start = summary.scale.starts[0]
            began = _thresholds(summary, threshold_arm(name, value, start), threshold_arm("u_high", 0.5, start))
            best = TABLE_3["u_high"][0.5]
            theirs = (f"{seconds(one)} ({times(one / own)})" for one, own in zip(paper, best, strict=True))
            lines += [
                Line((f"{what} {value}", *ours)),
                Line((f"begun with a window of {start}", *began)),
                Line((PAPER, *theirs), "dim"),
            ]
        headings = ("seconds (times the default's)", *(f"TP {row.engine.rpartition('tp')[2]}" for row in rows))
        yield Sheet(f"Table 3: latency over {what}, {other}, Qwen3-32B", headings, tuple(lines))


def _thresholds(summary: Summary, arm: str, default: str) -> list[str]:
    return [
        f"{seconds(summary.makespan(row, arm))} ({times(summary.speedup(row, default, over=arm))})"
        for row in summary.scale.rows[: len(QWEN)]
    ]
