"""The kinds of sandboxes, by the names a run takes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.swebench.sandbox.base import Limits
from benchmarks.swebench.sandbox.bubblewrap import BubblewrapSandboxes, check_available
from benchmarks.swebench.sandbox.client import PROGRAMS
from benchmarks.swebench.sandbox.containers import ContainerSandboxes, check_containers
from benchmarks.swebench.sandbox.copies import CopiedSandboxes

__all__ = ["BUBBLEWRAP", "KINDS", "check_kind", "sandboxes_of"]

BUBBLEWRAP = "bubblewrap"
KINDS = (BUBBLEWRAP, *PROGRAMS)


def check_kind(kind: str) -> None:
    """Return when this machine can run such sandboxes.

    Raises:
        SandboxUnavailable: it cannot; the message says what to do.
        ValueError: there is no such kind.
    """
    if kind == BUBBLEWRAP:
        check_available()
    else:
        check_containers(kind)


def sandboxes_of(kind: str, *, packages: Path | None = None, limits: Limits | None = None) -> CopiedSandboxes:
    """Sandboxes of a kind, to be entered. Raises ValueError when there is no such kind."""
    if kind == BUBBLEWRAP:
        return BubblewrapSandboxes(packages=packages, limits=limits)
    if kind not in PROGRAMS:
        raise ValueError(f"sandbox must be one of {', '.join(KINDS)}, not {kind!r}")
    return ContainerSandboxes(kind, packages=packages, limits=limits)
