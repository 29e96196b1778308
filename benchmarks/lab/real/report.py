"""A store as Markdown: one table a workload, and how well the lab predicted it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.lab.real.figures import BASELINE, NOISY, OURS, ArmFigures, Spread, arm_figures, ranking
from benchmarks.lab.real.predict import fitted
from benchmarks.lab.real.store import CaseLine, Store

__all__ = ["brief", "markdown"]

MISSED = 0.2
"""Share of failed readings above which a law has seen too little."""


def markdown(store: Store) -> str:
    """All tables and notes."""
    lines: list[str] = []
    for workload in dict.fromkeys(workload for workload, _ in store.cases):
        lines += [*_workload(store, workload), ""]
    return "\n".join([*lines, *(f"- {note}" for note in (*_about(store), *_doubts(store)))]) + "\n"


def brief(store: Store) -> str:
    """One row a workload: the default law against the arms that matter most."""
    lines = [
        (
            f"| workload | `{BASELINE}` s | `{OURS}` s | speed-up | over the best cap | over the paper's law "
            "| over ThunderAgent's |"
        ),
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for workload in dict.fromkeys(workload for workload, _ in store.cases):
        arms = {arm.arm: arm for arm in arm_figures(store, workload)}
        caps = [arm for arm in arms.values() if arm.arm.startswith("fixed:") and arm.makespan_s]
        best = min(caps, key=lambda arm: arm.makespan_s.mean if arm.makespan_s else float("inf"), default=None)
        free, ours = arms.get(BASELINE), arms.get(OURS)
        cells = [
            _spread(free.makespan_s if free else None, ".1f"),
            _spread(ours.makespan_s if ours else None, ".1f"),
            _spread(ours.ratio if ours else None, ".2f"),
            "?" if best is None else f"{_spread(best.against, '.2f')} (`{best.arm}`)",
            *(_spread(arms[name].against if name in arms else None, ".2f") for name in ("concur", "thunder")),
        ]
        lines.append(f"| {workload} | {' | '.join(cells)} |")
    notes = [f"- {note}" for note in _about(store) if not note.startswith("Lab:")]
    if left_out := sum((run.others_cpu or 0.0) > NOISY for run in store.runs):
        notes.append(
            f"- {left_out} of {len(store.runs)} runs are left out: others used more than {NOISY:.0%} of all cores."
        )
    return "\n".join([*lines, "", *notes]) + "\n"


def _workload(store: Store, workload: str) -> Iterator[str]:
    figures = arm_figures(store, workload)
    cases = [case for (name, _), case in store.cases.items() if name == workload]
    yield f"**{workload}**: {_size(store, cases)}"
    yield ""
    yield (
        f"| arm | makespan s | speed-up | over `{OURS}` | hit rate | recomputed | lost | "
        f"lab s | lab speed-up | lab over `{OURS}` | lab off by |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for arm in figures:
        yield f"| `{arm.arm}` | " + " | ".join(_cells(arm)) + " |"
    order = ranking(figures)
    if order is not None:
        yield ""
        yield (
            f"Order of the {order.arms} arms in the lab and on the engine: Kendall's tau {order.tau:.2f}; of the "
            f"{order.decided} pairs of which the same arm was faster in every repeat, {order.agreeing} are in the same "
            "order."
        )


def _cells(arm: ArmFigures) -> Iterator[str]:
    yield _spread(arm.makespan_s, ".1f")
    yield _spread(arm.ratio, ".2f")
    yield _spread(arm.against, ".2f")
    yield _value(arm.hit_rate, ".2f")
    yield _value(arm.recomputed_tokens, ",.0f")
    yield str(arm.lost)
    yield _value(arm.predicted_s, ".1f")
    yield _value(arm.predicted_ratio, ".2f")
    yield _value(arm.predicted_against, ".2f")
    yield _value(arm.error, "+.1%")


def _size(store: Store, cases: Sequence[CaseLine]) -> str:
    """The mean repeat."""
    pool = store.head.engine["scheduling"]["max_total_tokens"] if store.head else None
    case, count = cases[0], len(cases)
    steps, final = sum(each.steps for each in cases), sum(each.final_tokens for each in cases) / count
    over = f", {final / pool:.1f} times the pool" if pool else ""
    output, tool_s = (sum(values) / steps for values in zip(*((c.output_tokens, c.tool_s) for c in cases), strict=True))
    return (
        f"{case.agents} agents, {steps / count:,.0f} steps; {output:.0f} tokens generated a step, {tool_s:.2f} s in "
        f"tools; final contexts {final:,.0f} tokens{over}. The lab's workload with lengths x {case.scale['tokens']:g}, "
        f"{case.scale['merge']:g} steps made one, tool seconds x {case.scale['tools']:g}."
    )


def _about(store: Store) -> Iterator[str]:
    head = store.head
    if head is None:
        yield "Nothing was measured."
        return
    yield f"{head.engine['name']} on {head.machine['cores']} cores of {head.machine['cpu']}; tick {head.tick_s:g} s."
    repeats = max((run.repeat for run in store.runs), default=0)
    yield (
        f"Means (lowest..highest) of {repeats} interleaved repeats, each with other agents; speed-ups over "
        f"`uncontrolled`, and makespans over `{OURS}` (above 1 `{OURS}` is faster), within each repeat."
    )
    if store.sweeps:
        found = fitted(store.sweeps, head.engine["scheduling"])
        yield (
            f"Lab: the emulator in virtual time, its cost model fitted to this engine by {len(store.sweeps)} "
            f"calibrations (typically {found.prefill_error:.0%} off for a prefill pass, {found.decode_error:.0%} for a "
            "decode step)."
        )


def _doubts(store: Store) -> Iterator[str]:
    for run in store.runs:
        where = f"{run.workload}, {run.arm}, repeat {run.repeat}"
        if run.others_cpu is not None and run.others_cpu > NOISY:
            yield f"{where}: other programs used {run.others_cpu:.0%} of all cores, so it is left out."
        if run.missed > MISSED * run.readings:
            yield f"{where}: {run.missed} of {run.readings} readings of the engine failed."
        if run.lost:
            yield f"{where}: {run.lost} agents lost; {run.error}"


def _spread(spread: Spread | None, form: str) -> str:
    if spread is None:
        return "?"
    middle, low, high = (format(value, form) for value in (spread.mean, spread.low, spread.high))
    return middle if low == high else f"{middle} ({low}..{high})"


def _value(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)
