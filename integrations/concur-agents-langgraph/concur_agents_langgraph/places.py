"""Where in a graph a call happens, read from LangGraph's configuration.

A *namespace* (``checkpoint_ns``) names the task a call runs in, outermost first: ``tools:<task>|model:<task>``. Its
last part is the node; what is before it is the graph the node belongs to, here called the *level*. A level of ``""`` is
the outermost graph. LangGraph numbers a task's second and later subgraphs with a part of digits only. A ``@task`` adds
a part too, behind the node (or task) that calls it, but is no graph: the metadata tell it from a subgraph's node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config

__all__ = ["Place", "place_of_call", "place_of_run"]

_SEPARATOR = "|"
# A config that gives one of these addresses a history of its own: LangGraph (1.2.6 on) then drops what the surrounding
# task would have handed down.
_OWN_HISTORY = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One graph run within its thread."""

    thread_id: str | None
    level: str

    @property
    def depth(self) -> int:
        """How many graphs are around this one."""
        return sum(not part.isdigit() for part in self.level.split(_SEPARATOR)) if self.level else 0

    def within(self, base: str) -> str:
        """An id for the agent at this place: ``base`` itself for an outermost graph."""
        return f"{base}/{self.level}" if self.level else base


def place_of_run(*configs: RunnableConfig | None) -> Place:
    """Where a graph is about to run that is called with these configs (later ones win)."""
    explicit: dict[str, Any] = {}
    for config in configs:
        explicit |= (config or {}).get("configurable") or {}
    surrounding = var_child_runnable_config.get()
    if surrounding is not None and not any(explicit.get(key) for key in _OWN_HISTORY):
        explicit = {**(surrounding.get("configurable") or {}), **explicit}
    return Place(thread_id=_thread(explicit), level=explicit.get("checkpoint_ns") or "")


def place_of_call(config: RunnableConfig) -> Place:
    """The graph whose node runs with this config."""
    configurable = config.get("configurable") or {}
    namespace = configurable.get("checkpoint_ns") or ""
    parts = namespace.split(_SEPARATOR)
    metadata = config.get("metadata") or {}
    if metadata.get("langgraph_checkpoint_ns") == namespace:  # else its path is another node's
        parts = parts[: len(parts) - _tasks_around(metadata.get("langgraph_path"))]
    return Place(thread_id=_thread(configurable), level=_SEPARATOR.join(parts[:-1]))


def _tasks_around(path: Any) -> int:
    """How many calls of a ``@task``, one inside the other, a task path has: each is (push, path of the caller, ...)."""
    depth = 0
    while isinstance(path, list | tuple) and len(path) > 2 and isinstance(path[1], list | tuple):
        depth, path = depth + 1, path[1]
    return depth


def _thread(configurable: Mapping[str, Any]) -> str | None:
    thread_id = configurable.get("thread_id")
    return None if thread_id is None else str(thread_id)
