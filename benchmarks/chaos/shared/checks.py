"""Whether anybody was taken to be gone who was not: the controller by a worker, a worker by the controller."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.chaos.plan import Fault
from benchmarks.chaos.shared.notes import WorkerNotes
from benchmarks.chaos.shared.plan import LEASE_S, PATIENCE_S

__all__ = ["links", "unheard_of"]

_MARGIN_S = 1.0
"""Seconds by which a lease or somebody's patience may seem shorter, on a busy machine."""
_OF_CONTROLLER = ("kill controller", "end controller")
_UNHEARD = re.compile(r"worker '[^']*?-(\d+)-[0-9a-f]{8}' was not heard of")


def links(
    notes: Sequence[WorkerNotes], faults: Sequence[Fault], begun: Mapping[int, float], lags: Sequence[float]
) -> Iterator[str]:
    """Where a worker lost the controller without a reason, or did not say so once and take it back once.

    Args:
        notes: of each worker.
        faults: of the plan.
        begun: when each fault has happened, by its place in the plan.
        lags: when the whole machine did not keep up.
    """
    for number, worker in enumerate(notes):
        if worker.muddled:
            yield f"worker {number} said twice running that the controller is gone, or back: {worker.gone()}"
        for other in worker.others:
            yield f"worker {number} warned: {other}"
        for lost in worker.lost:
            if any(lost - LEASE_S < lag < lost + _MARGIN_S for lag in lags):
                continue
            if not any(at_s <= lost and _can_cost_link(faults[each], number) for each, at_s in begun.items()):
                yield f"worker {number} took the controller to be gone at {lost:.3f}, and it was not"


def unheard_of(
    log: str, pids: Sequence[int], notes: Sequence[WorkerNotes], faults: Sequence[Fault], begun: Mapping[int, float]
) -> Iterator[str]:
    """Workers that the controller took to be gone, and that were not.

    Args:
        log: the controller's.
        pids: of the workers.
        notes: of each worker.
        faults: of the plan.
        begun: when each fault has happened, by its place in the plan.
    """
    for found in _UNHEARD.finditer(log):
        if int(found[1]) not in pids:
            yield f"a worker that never was: {found[0]}"
            continue
        number = pids.index(int(found[1]))
        if not notes[number].lost and not any(_can_cost_lease(faults[each], number) for each in begun):
            yield f"worker {number} was there, and its lease lapsed"


def _can_cost_link(fault: Fault, worker: int) -> bool:
    if fault.kind in _OF_CONTROLLER:
        return True
    if fault.kind in ("stop controller", "hold-up worker", "cut-off worker"):
        return fault.who in (None, worker) and fault.lasts_s > PATIENCE_S - _MARGIN_S
    return False


def _can_cost_lease(fault: Fault, worker: int) -> bool:
    if fault.kind == "kill worker":
        return fault.who == worker
    if fault.kind in ("stop worker", "hold-up worker", "cut-off worker"):
        return fault.who == worker and fault.lasts_s > LEASE_S * 2 / 3 - _MARGIN_S
    return False
