"""What this package raises on purpose, under ``concur_agents.ConcurError``."""

from __future__ import annotations

from concur_agents import ConcurError

__all__ = ["NotWrappedError"]


class NotWrappedError(ConcurError):
    """A controlled model call outside of :func:`~concur_agents_langgraph.wrap`: nothing would end the agent.

    Raised at the first model call, so that a forgotten ``wrap`` shows in the first run and not as seats that leak.
    """
