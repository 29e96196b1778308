"""Everything Concur raises, in one tree.

::

    ConcurError
    ├── LifecycleError            a primitive was called in the wrong order
    │   ├── UnknownAgentError     resume, pause or park of an agent that was never admitted, or has finished
    │   └── ControllerClosedError the controller was closed; whoever waits for a seat gets this too
    ├── ConfigError               a configuration has problems; lists them all. A ValueError too
    ├── remote.UnreachableError   a shared controller gave no answer; agents go on without control
    ├── remote.RefusedError       a shared controller said no; says why
    └── EngineReadError           the engine could not be read; the controller holds, then falls back
        ├── EngineUnreachableError no answer: refused, timed out, broken off, or an HTTP error status
        └── MetricsError          an answer that holds no usable metrics; says the likely cause

Bad parameters are plain ``ValueError`` that name the field and its value.
"""

from __future__ import annotations

__all__ = [
    "ConcurError",
    "ConfigError",
    "ControllerClosedError",
    "EngineReadError",
    "EngineUnreachableError",
    "LifecycleError",
    "MetricsError",
    "UnknownAgentError",
]


class ConcurError(Exception):
    """Root of everything Concur raises on purpose."""


class ConfigError(ConcurError, ValueError):
    """A configuration has problems: what each is, and where.

    Args:
        problems: one line each: the file and line or the environment variable, the field, what it must be and what it
            is. Never a secret.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems: tuple[str, ...] = problems
        """As given."""

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return self.problems[0]
        return "\n  ".join([f"{len(self.problems)} problems in the configuration:", *self.problems])


class LifecycleError(ConcurError):
    """A primitive was called in an order the agent's lifecycle does not have."""


class UnknownAgentError(LifecycleError):
    """The agent was never admitted, or has finished."""


class ControllerClosedError(LifecycleError):
    """The controller is closed: it admits nobody any more."""


class EngineReadError(ConcurError):
    """One reading of an engine failed. Never stops a batch: the window is held, then falls back."""


class EngineUnreachableError(EngineReadError):
    """The engine gave no answer, or an HTTP error status."""


class MetricsError(EngineReadError):
    """The engine answered, but with no metrics that can be used. The message names the likely cause."""
