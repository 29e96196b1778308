"""Whether more agents generated at a time than there were seats."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.chaos.executions import Execution
from benchmarks.chaos.shared.notes import WorkerNotes
from benchmarks.chaos.shared.plan import family_of, worker_of

__all__ = ["SETTLED_S", "above_window"]

SETTLED_S = 0.5
"""Seconds after something happened in which a step may begin whose seat is from before."""


@dataclass(frozen=True, slots=True)
class _Generation:
    agent: str
    granted_s: float
    begin_s: float
    end_s: float
    counts: bool
    """Its worker was in control, and waited for its end."""

    @property
    def family(self) -> str:
        return family_of(self.agent)


def above_window(
    executions: Iterable[Execution], notes: Sequence[WorkerNotes], window: int, moments: Iterable[float]
) -> Iterator[str]:
    """Where more families generated at a time than the window has seats.

    Between two moments at which something happened to controller or workers, every step that has begun has a seat of
    the same controller, which knew all others: there is no excuse. Steps from before are left out, since who generates
    keeps its seat, and so is all of a family that shares such a seat, steps of workers that went on without control,
    and tries that were given up.

    Args:
        executions: at the engine.
        notes: of each worker.
        window: seats.
        moments: of faults, their ends, starts of the controller, and when workers lost and found it.
    """
    generations = [found for each in executions if (found := _generation(each, notes[worker_of(each.agent)]))]
    members: dict[str, set[str]] = defaultdict(set)
    for each in generations:
        members[each.family].add(each.agent)
    for begin, end in itertools.pairwise(sorted({0.0, *moments, math.inf})):
        settled = begin + SETTLED_S
        left_out = {
            each.family
            for each in generations
            if each.granted_s < settled and each.end_s > begin and len(members[each.family]) > 1
        }
        those = [
            each
            for each in generations
            if each.counts and settled <= each.granted_s < end and each.family not in left_out
        ]
        for latest in those:
            at_a_time = {each.family for each in those if each.begin_s <= latest.begin_s < each.end_s}
            if len(at_a_time) > window:
                yield f"{len(at_a_time)} generated at {latest.begin_s:.3f} in {window} seats: {sorted(at_a_time)}"
                break


def _generation(execution: Execution, notes: WorkerNotes) -> _Generation | None:
    """None where the worker has died before it noted it."""
    which = (execution.agent, execution.step, execution.attempt)
    granted_s = notes.granted.get(which)
    if granted_s is None:
        return None
    end_s = math.inf if execution.end_s is None else execution.end_s
    counts = which in notes.done and notes.in_control(granted_s)
    return _Generation(execution.agent, granted_s, execution.begin_s, end_s, counts)
