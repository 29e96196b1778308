"""What Concur adds to a model request and reads from a reply, for the model classes that take it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from langchain.agents.middleware import ModelRequest
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata
from langgraph.types import Command

from concur_agents.agents import header_value

__all__ = ["prepared", "reply_usage"]


def prepared(request: ModelRequest[Any], agent_id: str, header: str | None) -> ModelRequest[Any]:
    """``request`` with the agent's id as a header and with usage asked for in streams.

    Only for ``ChatOpenAI`` and its subclasses (also Azure, DeepSeek, xAI, ...), which are known to take both; any
    other model's request stays as it is. What the user set wins.
    """
    model: Any = request.model
    if not any(
        base.__name__ == "BaseChatOpenAI" and base.__module__.startswith("langchain_openai")
        for base in type(model).__mro__
    ):
        return request
    if getattr(model, "stream_usage", False) is None:  # nobody decided, and with a base_url that means no
        request = request.override(model=model.model_copy(update={"stream_usage": True}))
    if header is None:
        return request
    settings = request.model_settings
    headers = {header: header_value(agent_id), **(settings.get("extra_headers") or {})}
    return request.override(model_settings={**settings, "extra_headers": headers})


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
