"""AgentScope 1.x: agents whose calls are runs, models whose calls are steps (written against 1.0.21).

Not by the hooks of 1.x: a post hook does not fire on an error, so it cannot give a seat back; none sees the model calls
outside of the reasoning (summaries, compression, query rewriting); and none fires in the second of two calls at a time.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NoReturn, TypeVar

from agentscope.agent import AgentBase, UserAgent
from agentscope.message import Msg
from agentscope.model import ChatModelBase

from concur_agents import BaseController, Outcome
from concur_agents.adapters import ModelCall
from concur_agents.routing import at_engine
from concur_agents.usage import TokenUsage
from concur_agents_agentscope._config import Config, controller_of
from concur_agents_agentscope._installed import for_other_line
from concur_agents_agentscope._replies import Reply, lacking

__all__ = ["ConcurMiddleware", "disable", "enable", "install", "uninstall"]

T = TypeVar("T", bound=AgentBase | type[AgentBase])

_CONTROLLER = "_concur_controller"
_WRAPPED = "_concur_wrapped"
# Structured output is asked for without the tools, so with another prefix; and compression replaces the context.
_NOTHING_KEPT = TokenUsage(prompt=0, output=0)


def install(target: T, controller: BaseController | None) -> T:
    """Have an agent, or every agent of a class and of its subclasses, admitted by ``controller``.

    A call of the agent is its run, under its ``id``; each call of its models in it is a step. Installed again, the last
    controller counts; an agent's own goes before its class's.

    Args:
        target: an agent, or a class of agents.
        controller: who admits. None: nobody, whatever holds for its class; for an agent that only leads others, which
            would take one seat for all of them.

    Returns:
        The target.

    Raises:
        TypeError: it is neither.
    """
    kind = target if isinstance(target, type) else type(target)
    if not issubclass(kind, AgentBase):
        raise TypeError(f"install: target must be an agent or a class of agents, got {target!r}")
    _wrap(kind, "__call__", _controlled)
    setattr(target, _CONTROLLER, controller)
    return target


def uninstall(target: AgentBase | type[AgentBase]) -> None:
    """Undo :func:`install` for the same agent or class; calls that run go on under control. Idempotent."""
    if _CONTROLLER in vars(target):
        delattr(target, _CONTROLLER)


def enable(config: Config = None) -> BaseController:
    """Control every agent of this process, made before or after; what was installed goes first.

    Args:
        config: a controller, or what ``concur_agents.shared_controller`` takes: a file's path, a mapping, or None for
            the environment's. Called again, the last one counts.

    Returns:
        The controller, whose closing is the caller's when it was given one.
    """
    controller = controller_of(config)
    install(AgentBase, controller)
    return controller


def disable() -> None:
    """Undo :func:`enable`: calls that run go on under control, later ones are not."""
    uninstall(AgentBase)


# --- an agent's call is its run ---

_Method = Callable[..., Awaitable[Msg]]


def _wrap(kind: type[AgentBase], name: str, wrapper: Callable[[_Method], _Method]) -> None:
    """Wrap a method once wherever it is defined; for agents without a controller it does what it did."""
    for base in kind.__mro__:
        method = vars(base).get(name)
        if issubclass(base, AgentBase) and method is not None and not hasattr(method, _WRAPPED):
            wrapped = functools.wraps(method)(wrapper(method))
            setattr(wrapped, _WRAPPED, True)
            setattr(base, name, wrapped)


def _controlled(call: _Method) -> _Method:
    async def __call__(self: AgentBase, *args: Any, **kwargs: Any) -> Msg:  # noqa: N807 - it is one
        if isinstance(self, UserAgent):
            outer = Reply.current()
            if outer is not None:
                outer.park()  # a person is asked, in a tool or a hook
            return await call(self, *args, **kwargs)
        controller: BaseController | None = getattr(self, _CONTROLLER, None)
        if controller is None or Reply.current_of(self, controller) is not None:
            return await call(self, *args, **kwargs)
        with Reply(controller, self, self.id) as reply, reply.inside():
            with reply.faults.never_fatal("see an agent's model calls and interruptions"):
                _wrap(type(self), "handle_interrupt", _interrupted)
                _gate_models(self, controller)
            return await call(self, *args, **kwargs)

    return __call__


def _interrupted(handle: _Method) -> _Method:
    async def handle_interrupt(self: AgentBase, *args: Any, **kwargs: Any) -> Msg:
        try:
            return await handle(self, *args, **kwargs)
        finally:  # the call will return as if it had ended well
            reply = Reply.current_of(self, getattr(self, _CONTROLLER, None))
            if reply is not None:
                reply.finish(Outcome.CANCELLED)

    return handle_interrupt


# --- a model's call is a step of the run it is called in ---


def _gate_models(agent: AgentBase, controller: BaseController) -> None:
    """In place, so that the model stays the user's own object; without a run around it, it does what it did."""
    compression = getattr(agent, "compression_config", None)
    for model in (*vars(agent).values(), getattr(compression, "compression_model", None)):
        if not isinstance(model, ChatModelBase):
            continue
        if not isinstance(model, _Gated):
            model.__class__ = _gated(type(model))
        given: Any = model
        client = getattr(given, "client", None)
        routed = at_engine(client, controller)
        if routed is not client:
            given.client = routed


class _Gated:
    """Mixed into a model's class."""

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call: Callable[..., Awaitable[Any]] = super().__call__  # type: ignore[misc]
        reply = Reply.current()
        if reply is None:
            return await call(*args, **kwargs)
        with reply.faults.never_fatal("name an agent to the engine"):
            users = getattr(self, "generate_kwargs", {}).get("extra_headers"), kwargs.get("extra_headers")
            headers = lacking(self, reply.headers, *users)
            if headers:
                kwargs = {**kwargs, "extra_headers": {**headers, **(users[0] or {}), **(users[1] or {})}}
        step = reply.step()
        await step.__aenter__()
        streams = False
        try:
            result = await call(*args, **kwargs)
            streams = isinstance(result, AsyncGenerator)
            if not streams:
                _observe(step, result, kwargs)
            return _observed(step, result, kwargs) if streams else result
        finally:
            if not streams:
                step.end()


_gated_kinds: dict[type[ChatModelBase], type[ChatModelBase]] = {}


def _gated(kind: type[ChatModelBase]) -> type[ChatModelBase]:
    if kind not in _gated_kinds:
        body = {"__module__": kind.__module__, "__doc__": kind.__doc__}
        _gated_kinds[kind] = type(kind.__name__, (_Gated, kind), body)
    return _gated_kinds[kind]


async def _observed(
    step: ModelCall, chunks: AsyncGenerator[Any, None], kwargs: dict[str, Any]
) -> AsyncGenerator[Any, None]:
    try:
        async for chunk in chunks:
            _observe(step, chunk, kwargs)
            yield chunk
    finally:
        step.end()


def _observe(step: ModelCall, response: Any, kwargs: dict[str, Any]) -> None:
    usage = getattr(response, "usage", None)
    if kwargs.get("structured_model") is not None:
        step.observe(_NOTHING_KEPT)
    elif usage is not None:
        # The client's own says how much was cached; AgentScope's does not.
        raw = TokenUsage.of(usage.metadata)
        step.observe(usage if raw.prompt is None else raw)


# --- for 2.x ---


class ConcurMiddleware:
    """AgentScope 2.x has this.

    Raises:
        RuntimeError: always.
    """

    def __init__(self, controller: BaseController) -> NoReturn:  # noqa: ARG002 - as in the other line
        for_other_line("ConcurMiddleware", "install(agent, concur)")
