"""All workloads."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from benchmarks.lab.workloads.base import Workload
from benchmarks.lab.workloads.swe import SWE

__all__ = ["WORKLOADS", "get_workload"]

WORKLOADS: Mapping[str, Workload] = MappingProxyType({workload.name: workload for workload in (SWE,)})
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
