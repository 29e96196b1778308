"""AgentScope 2.x: a middleware (written against 2.0.11)."""

from __future__ import annotations

import contextlib
import copy
import functools
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any, NoReturn

from agentscope.agent import Agent
from agentscope.event import (
    ModelCallEndEvent,
    ModelCallStartEvent,
    ReplyEndEvent,
    ReplyFinishedReason,
    RequireExternalExecutionEvent,
    RequireUserConfirmEvent,
)
from agentscope.message import Msg
from agentscope.middleware import MiddlewareBase
from agentscope.model import ChatModelBase

from concur_agents import BaseController, Outcome
from concur_agents.routing import at_engine
from concur_agents.usage import TokenUsage
from concur_agents_agentscope._config import Config, controller_of
from concur_agents_agentscope._installed import for_other_line
from concur_agents_agentscope._replies import Reply, lacking

__all__ = ["ConcurMiddleware", "disable", "enable", "install", "uninstall"]

# A compressed context has another prefix: nothing the engine holds of the old one will be asked for again.
_NOTHING_KEPT = TokenUsage(prompt=0, output=0)


class ConcurMiddleware(MiddlewareBase):
    """Admits the agents that carry it: ``Agent(..., middlewares=[ConcurMiddleware(concur)])``.

    One object may serve any number of agents. A reply is the agent's run, under its ``state.session_id``; a model call,
    with its retries and fallbacks, is a step.

    Args:
        controller: who admits.
    """

    def __init__(self, controller: BaseController) -> None:
        self._controller = controller

    async def on_reply(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """The reply is the agent's run, and ends when this generator does, however it does."""
        events = next_handler(**input_kwargs)
        if Reply.current_of(agent, self._controller) is not None:  # it is listed twice
            async for event in events:
                yield event
            return
        ended: ReplyEndEvent | None = None
        with self._reply(agent) as reply:
            try:
                while True:
                    with reply.inside():
                        try:
                            event = await anext(events)
                        except StopAsyncIteration:
                            break
                    if isinstance(event, RequireUserConfirmEvent | RequireExternalExecutionEvent):
                        reply.suspend()  # now: who reads the events may ask the person before taking the next
                        _asking_of(self._controller)[reply.agent_id] = reply
                    if not isinstance(event, Msg):  # after the end comes only the message, unless it was not the end
                        ended = event if isinstance(event, ReplyEndEvent) else None
                    yield event
            finally:
                if ended is not None:  # says more than an exit without error, or than a reader that stopped here
                    interrupted = ended.finished_reason == ReplyFinishedReason.INTERRUPTED
                    reply.finish(Outcome.CANCELLED if interrupted else Outcome.COMPLETED)

    async def on_reasoning(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., AsyncGenerator[Any, None]]
    ) -> AsyncGenerator[Any, None]:
        """A model call is a step: it waits for the seat here, outside of the retries."""
        with self._reply(agent) as reply:
            try:
                await reply.resume()
                async for event in next_handler(**input_kwargs):
                    if isinstance(event, ModelCallStartEvent):
                        await reply.resume()  # does nothing, unless another middleware reasons again
                    elif isinstance(event, ModelCallEndEvent):
                        reply.pause(self._usage(event))  # before whoever reads the events does anything with the reply
                    yield event
            finally:
                reply.pause()

    async def on_model_call(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Tells the engine whose request it is."""
        reply = Reply.current_of(agent, self._controller)
        if reply is not None:
            with reply.faults.never_fatal("name an agent to the engine"):
                model = _named(input_kwargs["current_model"], reply)
                input_kwargs = {**input_kwargs, "current_model": model}
        return await next_handler(**input_kwargs)

    async def on_compress_context(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., Awaitable[None]]
    ) -> None:
        """A summary is a step too. The model is called for one rarely, and not by way of :meth:`on_model_call`."""
        model = agent.model
        if hasattr(model, "_concur_summarizes"):
            return await next_handler(**input_kwargs)
        with self._reply(agent) as reply:
            summarizer = _summarizer(model, reply)
            agent.model = summarizer
            try:
                await next_handler(**input_kwargs)
            finally:
                if agent.model is summarizer:
                    agent.model = model

    @contextlib.contextmanager
    def _reply(self, agent: Agent) -> Iterator[Reply]:
        """The agent's reply: the one that runs, else one of its own. It is suspended if a person is still asked."""
        reply = Reply.current_of(agent, self._controller)
        if reply is not None:
            yield reply
            return
        session = agent.state.session_id
        left = _asking_of(self._controller).pop(session, None)
        if left is not None:  # its reader stopped at the question, and the loop has not closed it yet
            left.__exit__(None, None, None)
        with Reply(self._controller, agent, session) as reply:
            try:
                yield reply
            finally:
                if not reply.over and agent.state.has_awaiting_tool_calls(agent.name):
                    reply.suspend()

    def _usage(self, event: ModelCallEndEvent) -> TokenUsage:
        """AgentScope says 0 for what the engine did not say; a 0 counts once the engine has said more."""
        cached: int | None = event.cache_input_tokens
        if cached:
            _report_cached.add(self._controller)
        elif self._controller not in _report_cached:
            cached = None
        return TokenUsage.of(
            {
                "prompt_tokens": event.input_tokens or None,
                "cached_tokens": cached,
                "completion_tokens": event.output_tokens or None,
            }
        )


_report_cached: weakref.WeakSet[BaseController] = weakref.WeakSet()
"""Controllers whose engine reports cached tokens."""
_Asking = weakref.WeakValueDictionary[str, Reply]
_asking: weakref.WeakKeyDictionary[BaseController, _Asking] = weakref.WeakKeyDictionary()


def _asking_of(controller: BaseController) -> _Asking:
    """Replies that have asked and are not left, by session."""
    return _asking.setdefault(controller, weakref.WeakValueDictionary())


def _named(model: Any, reply: Reply) -> Any:
    """The same model, whose requests carry the agent's headers, and go to its engine where there are several."""
    headers = lacking(model, reply.headers)
    client: Any = getattr(model, "client", None)
    named = client.with_options(default_headers=headers) if headers else client
    routed = at_engine(named, reply.controller)
    if routed is not client:
        model = copy.copy(model)
        model.client = routed
    return model


def _summarizer(model: ChatModelBase, reply: Reply) -> ChatModelBase:
    """The same model, whose structured outputs are steps."""
    with reply.faults.never_fatal("name an agent to the engine"):
        model = _named(model, reply)
    summarizer: Any = copy.copy(model)

    async def generate_structured_output(*args: Any, **kwargs: Any) -> Any:
        async with reply.step() as step:
            result = await model.generate_structured_output(*args, **kwargs)
            step.observe(_NOTHING_KEPT)
            return result

    summarizer.generate_structured_output = generate_structured_output
    summarizer._concur_summarizes = True
    typed: ChatModelBase = summarizer
    return typed


# --- every agent ---

_attached: weakref.WeakSet[Agent] = weakref.WeakSet()
_undo: list[Callable[[], None]] = []


def enable(config: Config = None) -> BaseController:
    """Control every agent of this process, made before or after; an agent's own ConcurMiddleware goes first.

    Args:
        config: a controller, or what ``concur_agents.shared_controller`` takes: a file's path, a mapping, or None for
            the environment's. Called again, the last one counts.

    Returns:
        The controller, whose closing is the caller's when it was given one.
    """
    controller = controller_of(config)
    disable()
    middleware = ConcurMiddleware(controller)
    reply, compress = Agent._reply, Agent.compress_context

    @functools.wraps(reply)
    def _reply(self: Agent, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        _attach(self, middleware)
        return reply(self, *args, **kwargs)

    @functools.wraps(compress)
    async def compress_context(self: Agent, *args: Any, **kwargs: Any) -> None:
        _attach(self, middleware)
        await compress(self, *args, **kwargs)

    def undo() -> None:
        Agent._reply, Agent.compress_context = reply, compress  # type: ignore[method-assign]
        for agent in _attached:
            for hooks in _hooks(agent):
                if middleware in hooks:
                    hooks.remove(middleware)
        _attached.clear()

    Agent._reply, Agent.compress_context = _reply, compress_context  # type: ignore[method-assign]
    _undo.append(undo)
    return controller


def disable() -> None:
    """Undo :func:`enable`. A reply that runs still ends as the agent's run, and takes no more steps."""
    while _undo:
        _undo.pop()()


def _attach(agent: Agent, middleware: ConcurMiddleware) -> None:
    replies, *others = _hooks(agent)
    if any(isinstance(each, ConcurMiddleware) for each in replies):
        return
    replies.insert(0, middleware)  # the whole reply is the agent's run,
    for hooks in others:
        hooks.append(middleware)  # and only the model's own call is a step
    _attached.add(agent)


def _hooks(agent: Agent) -> tuple[list[MiddlewareBase], ...]:
    return (
        agent._reply_middlewares,
        agent._reasoning_middlewares,
        agent._model_call_middlewares,
        agent._compress_context_middlewares,
    )


# --- for 1.x ---


def install(target: object, controller: BaseController | None) -> NoReturn:  # noqa: ARG001 - as in the other line
    """AgentScope 1.x has this.

    Raises:
        RuntimeError: always.
    """
    for_other_line("install()", "Agent(..., middlewares=[ConcurMiddleware(concur)])")


def uninstall(target: object) -> NoReturn:  # noqa: ARG001 - as in the other line
    """AgentScope 1.x has this.

    Raises:
        RuntimeError: always.
    """
    for_other_line("uninstall()", "Agent(..., middlewares=[...]) without ConcurMiddleware")
