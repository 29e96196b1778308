"""What the controller needs of an engine: one blocking reading at a time."""

from __future__ import annotations

from typing import Protocol

from concur_agents.samples import EngineSample

__all__ = ["EngineReader"]


class EngineReader(Protocol):
    """Reads one engine. The controller's own thread calls it, one call at a time, never an event loop."""

    def read(self, timeout: float) -> EngineSample:
        """Take one reading within ``timeout`` seconds in all.

        Raises:
            EngineReadError: the engine is unreachable or its answer holds no usable metrics.
        """
        ...

    def close(self) -> None:
        """Free connections. Reading again afterwards is allowed and opens new ones."""
        ...
