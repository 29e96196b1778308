"""What shards, their directory and the processes say to each other beside Concur's own operations."""

from __future__ import annotations

from dataclasses import dataclass, field

from concur_agents.fleet.load import EngineLoad

__all__ = ["AgentReport", "EngineState", "Scene", "ShardReport"]


@dataclass(frozen=True, slots=True)
class AgentReport:
    """One agent, as its shard knows it."""

    agent_id: str
    parent: str | None
    steps: int
    context: float | None
    """Tokens."""
    waiting: bool
    """For a seat."""


@dataclass(frozen=True, slots=True)
class ShardReport:
    """One shard at one moment."""

    url: str
    """Its engine's."""
    load: EngineLoad
    up: bool
    """The engine takes connections."""
    agents: tuple[AgentReport, ...]


@dataclass(frozen=True, slots=True)
class EngineState:
    """One engine, for those who send to it."""

    url: str
    shard: str
    """What its shard is called."""
    accepts: bool
    """It is up, and not being drained."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The fleet, as every process is to know it."""

    version: tuple[str, int]
    """Of which life of the directory, and how often it has changed in it."""
    engines: tuple[EngineState, ...] = ()
    moves: dict[str, str] = field(default_factory=dict)
    """Agents that wait for a seat and are to do so at another engine: its url."""
    session_header: str | None = None
