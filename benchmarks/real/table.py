"""A record as tables: for the terminal, and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.table import Table
from rich.text import Text

from benchmarks.real.figures import Spread, figures
from benchmarks.real.record import Record

__all__ = ["markdown", "render"]

NOISY = 0.05
"""Share of all cores that others used, above which a run's time is doubted: on two cores a tenth of the engine's."""
MISSED = 0.2
"""Share of failed readings above which a law has seen too little."""

_Rows = tuple[tuple[str, ...], ...]


def render(record: Record) -> Group:
    """Tables and notes, for a terminal of 80 columns."""
    parts = [_table(rows) for rows in _tables(record)]
    notes = [Text(note, style="dim") for note in _about(record)]
    warnings = [Text(warning, style="yellow") for warning in _warnings(record)]
    return Group("", *(line for part in parts for line in (part, "")), *notes, *warnings)


def markdown(record: Record) -> str:
    """The same for a document."""
    lines: list[str] = []
    for heading, *rows in _tables(record):
        lines += ["| " + " | ".join(heading) + " |", "|---|" + "---:|" * (len(heading) - 1)]
        lines += [f"| `{name}` | " + " | ".join(cells) + " |" for name, *cells in rows]
        lines.append("")
    lines += [f"- {note}" for note in (*_about(record), *_warnings(record))]
    return "\n".join(lines) + "\n"


def _table(rows: _Rows) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for number, heading in enumerate(rows[0]):
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in rows[1:]:
        table.add_row(*row)
    return table


def _tables(record: Record) -> Iterator[_Rows]:
    """Headings and rows of each table."""
    arms = figures(record)
    yield (
        ("arm", "makespan s", "speed-up", "hit rate", "recomputed", "lost"),
        *(
            (
                arm.arm,
                _spread(arm.makespan_s, "{:.1f}"),
                _spread(arm.speedup, "{:.2f}"),
                "?" if arm.hit_rate is None else f"{arm.hit_rate.median:.2f}",
                "?" if arm.recomputed_tokens is None else f"{arm.recomputed_tokens.median:,.0f}",
                str(arm.lost),
            )
            for arm in arms
        ),
    )
    if record.predicted:
        yield (
            ("arm", "measured s", "emulator s", "off by"),
            *(
                (arm.arm, _spread(arm.makespan_s, "{:.1f}"), _spread(arm.predicted_s, "{:.1f}"), _percent(arm.error))
                for arm in arms
            ),
        )


def _spread(spread: Spread | None, form: str) -> str:
    if spread is None:
        return "?"
    middle, low, high = (form.format(value) for value in (spread.median, spread.low, spread.high))
    return middle if low == high else f"{middle} ({low}..{high})"


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share:+.1%}"


def _about(record: Record) -> Iterator[str]:
    work, machine = record.workload, record.machine
    pool = record.engine["scheduling"]["max_total_tokens"]
    yield (
        f"{work['agents']} agents, {work['total_steps']} generations, seed {work['seed']}; final contexts add up to "
        f"{work['final_tokens'] / pool:.1f} times the pool of {pool:,} tokens."
    )
    yield f"{record.engine['name']} on {machine['cores']} cores of {machine['cpu']}; tick {record.tick_s:g} s."
    if record.repeats > 1:
        yield f"Medians (lowest..highest) of {record.repeats} interleaved repeats; speed-ups within each repeat."
    if record.fit is not None:
        yield (
            f"Cost model fitted to this engine: typically {record.fit.prefill_error:.0%} off for a prefill pass, "
            f"{record.fit.decode_error:.0%} for a decode step."
        )


def _warnings(record: Record) -> Iterator[str]:
    if not record.complete:
        yield f"Not finished: {len(record.runs)} of {len(record.arms) * record.repeats} runs."
    for run in record.runs:
        where = f"{run.arm}, repeat {run.repeat}"
        if run.others_cpu is not None and run.others_cpu > NOISY:
            yield f"{where}: other programs used {run.others_cpu:.0%} of all cores, so its time is doubtful."
        if run.batch.missed > MISSED * run.batch.readings:
            yield f"{where}: {run.batch.missed} of {run.batch.readings} readings of the engine failed."
        if run.batch.lost:
            first = next(agent for agent in run.batch.agents if agent.error is not None)
            yield f"{where}: {run.batch.lost} agents lost; {first.agent_id}: {first.error}"
