"""What the contract gives an adapter's test to run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from concur_agents.base import BaseController

__all__ = ["Scene"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One agent to build with the real framework, and to run to its end."""

    controller: BaseController
    """Of one engine, and in one test of several."""
    base_url: str
    """Of an OpenAI-compatible engine, ``.../v1``; any key is right. Let the client retry nothing."""
    model: str
    agent_id: str
    """The agent's id for Concur. Its requests must carry it as ``X-Session-ID``: the engine finds its replies by it."""
    prompt: str
    """The user's message."""
    max_steps: int | None
    """Model calls after which the framework should stop the agent; None for the framework's own default."""
    tool: Callable[[str], Awaitable[str]]
    """What the framework's tool ``work(text: str) -> str`` does, for frameworks with async tools."""
    blocking_tool: Callable[[str], str]
    """The same for frameworks whose tools block their thread."""
