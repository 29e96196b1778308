"""Private places in which untrusted commands run."""

from benchmarks.swebench.sandbox.base import (
    CommandResult,
    Limits,
    Sandbox,
    SandboxError,
    Sandboxes,
    SandboxUnavailable,
)
from benchmarks.swebench.sandbox.bubblewrap import BubblewrapSandboxes, check_available
from benchmarks.swebench.sandbox.containers import ContainerSandboxes
from benchmarks.swebench.sandbox.kinds import BUBBLEWRAP, KINDS, check_kind, sandboxes_of

__all__ = [
    "BUBBLEWRAP",
    "KINDS",
    "BubblewrapSandboxes",
    "CommandResult",
    "ContainerSandboxes",
    "Limits",
    "Sandbox",
    "SandboxError",
    "SandboxUnavailable",
    "Sandboxes",
    "check_available",
    "check_kind",
    "sandboxes_of",
]
