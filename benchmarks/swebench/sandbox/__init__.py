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

__all__ = [
    "BubblewrapSandboxes",
    "CommandResult",
    "Limits",
    "Sandbox",
    "SandboxError",
    "SandboxUnavailable",
    "Sandboxes",
    "check_available",
]
