"""Concur's own failures: said once, and never the agent's problem."""

from __future__ import annotations

import logging
import threading

__all__ = ["Faults"]

_log = logging.getLogger("concur_agents_langgraph")


class Faults:
    """Where the failures of one wrapped graph go. The first of each kind is a warning, the rest are debug lines."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: set[str] = set()

    def failed(self, what: str, error: Exception) -> None:
        """Concur could not do ``what``; the agent goes on without."""
        self._say(f"{what}:{type(error).__name__}", "Concur could not %s; the agent goes on without", what, error)

    def uncontrolled(self, graph: str) -> None:
        """A run has ended well and none of its model calls went through Concur."""
        self._say(
            "uncontrolled",
            "a run of the wrapped graph %r called no model through Concur: give create_agent(middleware="
            "[ConcurMiddleware(controller)]), or build the graph with add_concur",
            graph,
        )

    def _say(self, kind: str, message: str, subject: str, error: Exception | None = None) -> None:
        with self._lock:
            first = kind not in self._said
            self._said.add(kind)
        _log.log(logging.WARNING if first else logging.DEBUG, message, subject, exc_info=error)
