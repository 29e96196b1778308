"""Everything Concur raises, in one tree.

::

    ConcurError
    ├── LifecycleError            a primitive was called in the wrong order
    │   ├── UnknownAgentError     resume, pause or park of an agent that was never admitted, or has finished
    │   └── ControllerClosedError the controller was closed; whoever waits for a seat gets this too
    └── EngineReadError           the engine could not be read; the controller holds, then falls back
        ├── EngineUnreachableError no answer: refused, timed out, broken off, or an HTTP error status
        └── MetricsError          an answer that holds no usable metrics; says the likely cause

Bad parameters are plain ``ValueError`` that name the field and its value.
"""

from __future__ import annotations

__all__ = [
    "ConcurError",
    "ControllerClosedError",
    "EngineReadError",
    "EngineUnreachableError",
    "LifecycleError",
    "MetricsError",
    "UnknownAgentError",
]


class ConcurError(Exception):
    """Root of everything Concur raises on purpose."""


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
