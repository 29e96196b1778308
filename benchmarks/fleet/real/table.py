"""A record as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.fleet.real.fronts import FRONTS, GATEWAY
from benchmarks.fleet.real.record import Record, Run
from benchmarks.lab.real.figures import NOISY, Spread

__all__ = ["markdown"]


def markdown(data: Mapping[str, Any]) -> str:
    """The table and its notes. Raises ValueError where it is no record."""
    return "\n".join(_lines(Record.of(data))) + "\n"


def _lines(record: Record) -> Iterator[str]:
    arms = [name for name in FRONTS if any(run.arm == name for run in record.runs)]
    runs = [run for run in record.runs if run.counts]
    others = [name for name in arms if name != GATEWAY]
    yield (
        f"| arm | makespan s | {''.join(f'over `{name}` | ' for name in others)}hit rate | of each server "
        "| busier server, of the mean | recomputed tokens | lost |"
    )
    yield f"|---|{'---:|' * (len(others) + 6)}"
    for name in arms:
        own = [run for run in runs if run.arm == name]
        cells = [
            _spread([run.makespan_s for run in own], ".1f"),
            *(_spread(_ratios(runs, other, name), ".2f") for other in others),
            _mean(own, lambda run: run.hit_rate, ".1%"),
            " ".join(_by_server(own)),
            _mean(own, _busier, ".2f"),
            _mean(own, lambda run: run.recomputed_tokens, ",.0f"),
            str(sum(run.lost for run in own)),
        ]
        yield f"| `{name}` | {' | '.join(cells)} |"
    yield ""
    yield from (f"- {note}" for note in _notes(record, arms))


def _notes(record: Record, arms: Sequence[str]) -> Iterator[str]:
    setting, cases = record.setting, list(record.cases.values())
    if setting is None or not cases:
        return
    pool = setting.servers * (setting.engine["scheduling"].get("max_total_tokens") or 0)
    final = fmean(case.final_tokens for case in cases)
    yield (
        f"{cases[0].agents} agents of `{setting.workload}`, made small as in `benchmarks/lab/real`; "
        f"{fmean(case.steps for case in cases):,.0f} steps; final contexts {final:,.0f} tokens, "
        f"{final / pool if pool else 0:.1f} times the pools of {setting.servers} servers together."
    )
    yield from (f"`{name}`: {FRONTS[name].about}." for name in arms)
    yield (
        "The same requests in every arm: they name their agent in a header, and say which is its last. Hit rate by the "
        "replies, each server's by its own counters; the busier server by prompt tokens."
    )
    machine = setting.machine
    yield (
        f"{setting.servers} servers of {setting.engine['name']}, one thread each for forward passes, and all else on "
        f"{machine['cores']} cores of {machine['cpu']}."
    )
    repeats = len({run.repeat for run in record.runs})
    yield (
        f"Means (lowest..highest) of {repeats} interleaved repeats, each with other agents; ratios of makespans within "
        "each repeat, above 1 the arm of the row is faster."
    )
    for run in record.runs:
        if not run.counts:
            yield (
                f"{run.arm}, repeat {run.repeat}: other programs used {run.others_cpu:.0%} of all cores (more than "
                f"{NOISY:.0%}), so it is left out."
            )


def _ratios(runs: Sequence[Run], over: str, under: str) -> list[float]:
    seconds = {(run.arm, run.repeat): run.makespan_s for run in runs}
    return [
        seconds[over, repeat] / time
        for (arm, repeat), time in seconds.items()
        if arm == under and (over, repeat) in seconds
    ]


def _by_server(runs: Sequence[Run]) -> Iterator[str]:
    for shares in zip(*(run.servers for run in runs), strict=True):
        yield f"{fmean(share.hit_tokens / max(1.0, share.prompt_tokens) for share in shares):.1%}"


def _busier(run: Run) -> float:
    tokens = [share.prompt_tokens for share in run.servers]
    return max(tokens) / max(1.0, fmean(tokens))


def _mean(runs: Sequence[Run], value: Callable[[Run], float], form: str) -> str:
    return f"{fmean(map(value, runs)):{form}}" if runs else "?"


def _spread(values: Sequence[float], form: str) -> str:
    spread = Spread.of(values)
    if spread is None:
        return "?"
    if spread.low == spread.high:
        return f"{spread.mean:{form}}"
    return f"{spread.mean:{form}} ({spread.low:{form}}..{spread.high:{form}})"
