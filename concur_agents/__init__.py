"""Concur: lets a batch of LLM agents share one inference engine without thrashing its KV cache."""

from concur_agents.agents import INHERIT, Agent, SyncAgent
from concur_agents.base import BaseController, SyncController
from concur_agents.controller import Controller
from concur_agents.errors import (
    ConcurError,
    ConfigError,
    ControllerClosedError,
    EngineReadError,
    EngineUnreachableError,
    LifecycleError,
    MetricsError,
    UnknownAgentError,
)
from concur_agents.events import AgentEvent, AgentEventKind, Event, EventStream, ProblemEvent
from concur_agents.fleet import FleetController
from concur_agents.laws import Clamped, ConcurLaw, Decision, FixedWindow, Law, Smoothed, TokenBudget, Uncontrolled
from concur_agents.samples import (
    AgentState,
    AgentView,
    EngineSample,
    Outcome,
    Population,
    Reason,
    Stats,
    WindowChange,
)
from concur_agents.shared import shared_controller
from concur_agents.steps import Step, SyncStep
from concur_agents.usage import TokenUsage

__all__ = [
    "INHERIT",
    "Agent",
    "AgentEvent",
    "AgentEventKind",
    "AgentState",
    "AgentView",
    "BaseController",
    "Clamped",
    "ConcurError",
    "ConcurLaw",
    "ConfigError",
    "Controller",
    "ControllerClosedError",
    "Decision",
    "EngineReadError",
    "EngineSample",
    "EngineUnreachableError",
    "Event",
    "EventStream",
    "FixedWindow",
    "FleetController",
    "Law",
    "LifecycleError",
    "MetricsError",
    "Outcome",
    "Population",
    "ProblemEvent",
    "Reason",
    "Smoothed",
    "Stats",
    "Step",
    "SyncAgent",
    "SyncController",
    "SyncStep",
    "TokenBudget",
    "TokenUsage",
    "Uncontrolled",
    "UnknownAgentError",
    "WindowChange",
    "shared_controller",
]
