"""Concur's operations, carried by calls of an actor."""

from __future__ import annotations

from typing import Any

from concur_agents.remote.protocol import UnreachableError
from concur_agents_ray.names import NamedActor

__all__ = ["RayTransport"]


class RayTransport:
    """A :class:`~concur_agents.remote.protocol.Transport` to the desk in an actor.

    Args:
        actor: its name, in the namespace ``concur``.
    """

    def __init__(self, actor: str) -> None:
        self._actor = NamedActor(actor)

    async def call(self, operation: str, body: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """Have an operation done.

        Raises:
            UnreachableError: the actor is dead, being restarted, hung, or the node it was on is gone.
        """
        answer = await self._actor.call("call", operation, body, timeout_s=timeout_s)
        if not isinstance(answer, dict):
            raise UnreachableError(f"the shard's answer is none: {answer!r:.80}")
        return answer

    async def aclose(self) -> None:
        """Nothing is open."""
