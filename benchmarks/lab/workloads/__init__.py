"""Workloads by name, each a documented configuration in a file of its own. To add one, add its file and name here."""

from __future__ import annotations

from benchmarks.lab.workloads.base import Workload
from benchmarks.lab.workloads.registry import WORKLOADS, get_workload

__all__ = ["WORKLOADS", "Workload", "get_workload"]
