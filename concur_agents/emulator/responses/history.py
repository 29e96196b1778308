"""The items of a request's input, as the chat that SGLang makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from concur_agents.emulator.problems import BadRequestError

__all__ = ["chat_of", "turns_in"]

_LABEL = "Developer instructions:"
"""Before what a developer says, which becomes the system's."""

Chat = dict[str, Any]


def chat_of(instructions: str | None, items: Sequence[Mapping[str, Any]], *, inline: bool) -> list[Chat]:
    """One message for each turn, of whose text and calls the API makes items of their own.

    A turn whose items are of different ``phase`` (what it says before its calls has one, the calls have none) is not
    put together again, so that the prompt parts from what was generated: with SGLang as it is here.

    Args:
        instructions: what the system says first.
        items: of the input.
        inline: whether system messages stay where they are, or all go to the front.

    Raises:
        BadRequestError: there is nothing to answer, or an item is of a kind that SGLang does not know.
    """
    messages = [{"role": "system", "content": instructions}] if instructions else []
    for item in items:
        message = _message(item)
        if message is not None:
            _append(messages, message)
    if not messages:
        raise BadRequestError("Cannot apply chat template to an empty conversation. Provide at least one message. None")
    if inline:
        return messages
    first = [text for message in messages if message["role"] == "system" for text in _texts(message.get("content"))]
    others = [message for message in messages if message["role"] != "system"]
    return [{"role": "system", "content": "\n\n".join(first)}, *others] if first else others


def turns_in(messages: Sequence[Mapping[str, Any]]) -> int:
    """The model's turns: messages of the assistant that follow each other are one."""
    roles = [message["role"] for message in messages]
    return sum(role == "assistant" != before for before, role in zip(["", *roles], roles, strict=False))


def _append(messages: list[Chat], message: Chat) -> None:
    last = messages[-1] if messages else {}
    together = last.get("role") == message["role"] == "assistant" and last.get("phase") == message.get("phase")
    if not together:
        messages.append(message)
        return
    texts = [content for content in (last.get("content"), message.get("content")) if content]
    if all(isinstance(content, str) for content in texts):
        last["content"] = "\n\n".join(texts) or None
    else:
        last["content"] = [part for content in texts for part in _parts(content)]
    last["tool_calls"] = [*(last.get("tool_calls") or ()), *(message.get("tool_calls") or ())]


def _message(item: Mapping[str, Any]) -> Chat | None:
    match item.get("type"):
        case "function_call":
            return _call(item, _arguments(item.get("arguments")))
        case "custom_tool_call":
            return _call(item, json.dumps({"input": item.get("input") or ""}, ensure_ascii=False))
        case "function_call_output" | "custom_tool_call_output":
            output = item.get("output", "")
            text = "".join(_texts(output)) if isinstance(output, list) else output
            return {"role": "tool", "tool_call_id": item.get("call_id"), "content": text}
        case "reasoning":
            return None  # templates drop it
        case None | "message":
            return _spoken(item)
        case kind:
            raise BadRequestError(f"Unsupported Responses API input item type: {kind!r} None")


def _spoken(item: Mapping[str, Any]) -> Chat:
    role, content = item.get("role"), item.get("content")
    if role not in ("system", "developer", "user", "assistant", "tool"):
        raise BadRequestError(f"input: role must be one of a chat, got {role!r:.80}")
    if not isinstance(content, (str, list, type(None))):
        raise BadRequestError(f"content must be a string or a list of parts, got {type(content).__name__}")
    message: Chat = {"role": role, "content": content if isinstance(content, str) else _parts(content)}
    if role == "developer":
        first, *others = _texts(content) or [""]
        message = {"role": "system", "content": _parts([f"{_LABEL}\n{first}" if first else _LABEL, *others])}
    if item.get("phase") is not None:
        message["phase"] = item["phase"]
    return message


def _call(item: Mapping[str, Any], arguments: str) -> Chat:
    function = {"name": item.get("name"), "arguments": arguments}
    call = {"id": item.get("call_id") or item.get("id"), "type": "function", "function": function}
    return {"role": "assistant", "tool_calls": [call]}


def _arguments(arguments: object) -> str:
    """An object in JSON, whatever was sent."""
    if isinstance(arguments, Mapping):
        return json.dumps(arguments)
    try:
        return arguments if isinstance(arguments, str) and isinstance(json.loads(arguments), dict) else "{}"
    except ValueError:
        return "{}"


def _parts(content: Any) -> list[Chat]:
    return [{"type": "text", "text": text} for text in _texts(content)]


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return [text for text in texts if isinstance(text, str)]
