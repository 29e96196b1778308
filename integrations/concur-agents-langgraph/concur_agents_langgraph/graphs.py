"""Concur for a hand-made ``StateGraph``.

Nothing is added to the graph's shape. The model node waits for its agent's seat when it starts and is at a boundary
when it returns, so between the two the agent is paused, wherever the edges lead: to one tool node, to several through
``Send``, to a node where a person decides. Nodes of our own would cost two supersteps a round of the recursion limit,
miss ``Send`` and ``Command(goto=...)``, and one after the tools would be skipped by a tool that raises.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.config import get_config
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph

from concur_agents import BaseController
from concur_agents_langgraph.generation import Generation
from concur_agents_langgraph.models import reply_usage
from concur_agents_langgraph.runs import current_run, headers
from concur_agents_langgraph.wrapping import wrap

__all__ = ["add_concur", "pause_node", "resume_node", "session_headers"]


def add_concur(
    graph: StateGraph[Any, Any, Any, Any],
    controller: BaseController,
    *,
    model_node: str | Sequence[str] = "model",
    tool_node: str | Sequence[str] = "tools",
    park_on_interrupt: bool = True,
    **compile_options: Any,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Compile a hand-made graph as an agent of ``controller``: write this where ``graph.compile()`` stood.

    ::

        agent = add_concur(graph, concur, model_node="model", tool_node="tools")

    The agent is admitted before its first model call, paused when the model node returns, thus before the tool node,
    and resumed after it, when the model node starts again. The result is wrapped (see :func:`wrap`), so every end of a
    run finishes the agent. ``graph`` itself stays as it is.

    Args:
        graph: with its nodes and edges, not compiled.
        controller: gives out the seats.
        model_node: the node that calls the model, or several of them; each run of one is one step.
        tool_node: the node that runs tools, or several of them: sub-agents that ran in it end with it.
        park_on_interrupt: see :func:`wrap`.
        **compile_options: for ``graph.compile``: ``checkpointer`` and so on.

    Raises:
        ValueError: the graph has no node of that name.
    """
    controlled = copy.copy(graph)
    controlled.nodes = dict(graph.nodes)
    for field, names, around in (("model_node", model_node, _ModelNode), ("tool_node", tool_node, _ToolNode)):
        for name in [names] if isinstance(names, str) else names:
            if name not in graph.nodes:
                raise ValueError(f"add_concur: {field} {name!r} is no node of the graph, which has {list(graph.nodes)}")
            spec = controlled.nodes[name]
            controlled.nodes[name] = dataclasses.replace(spec, runnable=around(controller, spec.runnable))
    return wrap(controlled.compile(**compile_options), controller, park_on_interrupt=park_on_interrupt)


def resume_node(controller: BaseController) -> Runnable[Any, Any]:
    """A node that admits or resumes the agent, for graphs wired by hand: put it before the model, each time round.

    The compiled graph has to be wrapped: ``wrap(graph.compile(), controller)``.
    """
    return _ResumeNode(controller)


def pause_node(controller: BaseController) -> Runnable[Any, Any]:
    """A node that pauses the agent, for graphs wired by hand: put it behind the model, before the tools.

    The usage of the newest AI message in the state's ``messages`` is observed.
    """
    return _PauseNode(controller)


def session_headers() -> dict[str, str]:
    """Headers with the agent's id, for a model call in a hand-made node; empty outside of a wrapped run.

    ::

        await model.ainvoke(state["messages"], extra_headers=session_headers())
    """
    return headers()


class _ModelNode(Runnable[Any, Any]):
    """A user's node as one step of its agent."""

    def __init__(self, controller: BaseController, node: Any) -> None:
        self._controller = controller
        self._node = node

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:  # noqa: A002 - LangChain's name for it
        with Generation(current_run(self._controller), config or get_config()) as generation:
            result = self._node.invoke(input, config, **options)
            generation.observe(reply_usage(result, known=_messages_of(input)))
        return result

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:  # noqa: A002 - as above
        async with Generation(current_run(self._controller), config or get_config()) as generation:
            result = await self._node.ainvoke(input, config, **options)
            generation.observe(reply_usage(result, known=_messages_of(input)))
        return result


class _ToolNode(Runnable[Any, Any]):
    """A user's tool node, between two steps."""

    def __init__(self, controller: BaseController, node: Any) -> None:
        self._controller = controller
        self._node = node

    def invoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:  # noqa: A002 - as above
        run = current_run(self._controller)
        result = self._node.invoke(input, config, **options)
        run.settle(config or get_config())
        return result

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Any:  # noqa: A002 - as above
        run = current_run(self._controller)
        result = await self._node.ainvoke(input, config, **options)
        run.settle(config or get_config())
        return result


class _ResumeNode(Runnable[Any, Any]):
    name = "resume"

    def __init__(self, controller: BaseController) -> None:
        self._controller = controller

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:  # noqa: A002, ARG002 - as above
        generation = Generation(current_run(self._controller), config or get_config())
        if generation.member.open is None:
            generation.member.open = generation.__enter__()
        return {}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:  # noqa: A002, ARG002 - as above
        generation = Generation(current_run(self._controller), config or get_config())
        if generation.member.open is None:
            generation.member.open = await generation.__aenter__()
        return {}


class _PauseNode(Runnable[Any, Any]):
    name = "pause"

    def __init__(self, controller: BaseController) -> None:
        self._controller = controller

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:  # noqa: A002 - as above
        generation = self._open(config)
        if generation is not None:
            generation.observe(reply_usage(input))
            generation.__exit__(None, None, None)
        return {}

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> dict[str, Any]:  # noqa: A002 - as above
        generation = self._open(config)
        if generation is not None:
            generation.observe(reply_usage(input))
            await generation.__aexit__(None, None, None)
        return {}

    def _open(self, config: RunnableConfig | None) -> Generation | None:
        member = current_run(self._controller).member(config or get_config())
        generation: Generation | None = member.open
        member.open = None
        return generation


def _messages_of(state: Any) -> Sequence[Any]:
    messages = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", None)
    return messages if isinstance(messages, list | tuple) else ()
