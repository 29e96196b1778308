"""What Concur adds to a model request and reads from a reply, for the model classes that take it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import EllipsisType
from typing import Any, TypeVar

from langchain.agents.middleware import ModelRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.types import Command

from concur_agents import BaseController
from concur_agents.agents import header_value
from concur_agents.routing import at_engine

__all__ = ["ModelT", "at_its_engine", "header_of", "prepared", "reply_usage", "with_header", "with_usage"]


ModelT = TypeVar("ModelT", bound=BaseChatModel)


def header_of(controller: BaseController, header: str | EllipsisType | None) -> str | None:
    """The header for agents' ids: the controller's where the user gave none here."""
    return controller.session_header if isinstance(header, EllipsisType) else header


def prepared(
    request: ModelRequest[Any], controller: BaseController, agent_id: str, header: str | None
) -> ModelRequest[Any]:
    """``request`` with the agent's id as a header, for the agent's engine, and with usage asked for in streams.

    Only for ``ChatOpenAI`` and its subclasses (also Azure, DeepSeek, xAI, ...), which are known to take both; any
    other model's request stays as it is. What the user set wins.
    """
    model = at_its_engine(with_usage(request.model), controller)
    if model is not request.model:
        request = request.override(model=model)
    settings = with_header(model, request.model_settings, agent_id, header)
    return request if settings is request.model_settings else request.override(model_settings=settings)


def with_usage(model: ModelT) -> ModelT:
    """``model``, but asking for usage in streams where nobody decided: with a ``base_url`` LangChain would not."""
    if _is_openai(model) and getattr(model, "stream_usage", False) is None:
        return model.model_copy(update={"stream_usage": True})
    return model


def at_its_engine(model: ModelT, controller: BaseController) -> ModelT:
    """``model``, whose requests for one of several engines go to the one that the agent is on."""
    if not controller.may_have_several or not _is_openai(model):
        return model
    clients: dict[str, Any] = {}
    for part, root in (("client", "root_client"), ("async_client", "root_async_client")):
        client: Any = getattr(model, root, None)
        routed = at_engine(client, controller)
        if routed is not client:
            clients |= {root: routed, part: routed.chat.completions}
    return model.model_copy(update=clients) if clients else model


def with_header(model: BaseChatModel, options: dict[str, Any], agent_id: str, header: str | None) -> dict[str, Any]:
    """``options`` of a model call with the agent's id as a header beside the user's own."""
    if header is None or not _is_openai(model):
        return options
    headers = {header: header_value(agent_id), **(options.get("extra_headers") or {})}
    return {**options, "extra_headers": headers}


def reply_usage(reply: Any, *, known: Iterable[Any] = ()) -> UsageMetadata | None:
    """Usage of the newest AI message in what a model call or a model node returned; None when it has none.

    Args:
        reply: a message, messages, a middleware's response, a state update or a ``Command`` with one.
        known: messages the node was given, which are nobody's reply.
    """
    old = {id(message) for message in known}
    newest = None
    for message in _messages(reply):
        if id(message) not in old:
            newest = message
    return None if newest is None else newest.usage_metadata


def _is_openai(model: object) -> bool:
    return any(
        base.__name__ == "BaseChatOpenAI" and base.__module__.startswith("langchain_openai")
        for base in type(model).__mro__
    )


def _messages(reply: Any) -> Iterator[AIMessage]:
    if isinstance(reply, AIMessage):
        yield reply
    elif isinstance(reply, Mapping):
        yield from _messages(reply.get("messages"))
    elif isinstance(reply, Command):
        yield from _messages(reply.update)
    elif isinstance(reply, list | tuple):
        for part in reply:
            yield from _messages(part)
    else:
        for holder in ("model_response", "result", "messages"):
            if (part := getattr(reply, holder, None)) is not None:
                yield from _messages(part)
                return
