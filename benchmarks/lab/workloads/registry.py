"""All workloads."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from benchmarks.lab.workloads.arrivals import ARRIVALS
from benchmarks.lab.workloads.base import Workload
from benchmarks.lab.workloads.busy_host import BUSY_HOST
from benchmarks.lab.workloads.coding import CODING
from benchmarks.lab.workloads.distill import DISTILL
from benchmarks.lab.workloads.documents import NO_SHARED_PREFIX
from benchmarks.lab.workloads.judge import JUDGE
from benchmarks.lab.workloads.mixed import MIXED
from benchmarks.lab.workloads.react import FITS, REACT
from benchmarks.lab.workloads.rl_waves import RL_WAVES
from benchmarks.lab.workloads.slow_tools import SLOW_TOOLS
from benchmarks.lab.workloads.swe import SWE

__all__ = ["WORKLOADS", "get_workload"]

WORKLOADS: Mapping[str, Workload] = MappingProxyType(
    {
        workload.name: workload
        for workload in (
            SWE,
            CODING,
            REACT,
            MIXED,
            NO_SHARED_PREFIX,
            SLOW_TOOLS,
            BUSY_HOST,
            RL_WAVES,
            JUDGE,
            DISTILL,
            ARRIVALS,
            FITS,
        )
    }
)
"""By name, for ``--workloads``."""


def get_workload(name: str) -> Workload:
    """A workload by name.

    Raises:
        ValueError: naming it and those there are.
    """
    try:
        return WORKLOADS[name]
    except KeyError:
        raise ValueError(f"workload must be one of {', '.join(WORKLOADS)}, got {name!r}") from None
