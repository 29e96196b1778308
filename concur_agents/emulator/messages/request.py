"""A request of the Messages API as the chat that SGLang makes of it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from concur_agents.emulator.fields import SCHEMA, integer, text
from concur_agents.emulator.messages.errors import INVALID
from concur_agents.emulator.problems import BadRequestError

__all__ = ["Asked", "read"]

_ROLES = ("user", "assistant", "system")
_SERVER_TOOLS = ("web_search_", "computer_", "bash_", "text_editor_")
"""Tools that Anthropic itself runs: SGLang passes over them."""
_BLOCKS = {
    "text": "text",
    "image": None,
    "tool_use": "name",
    "tool_result": None,
    "tool_reference": None,
    "search_result": None,
    "thinking": "thinking",
    "redacted_thinking": None,
}
"""Kinds of content, and the text that each must have."""

Chat = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request asks for, in the chat API's terms."""

    model: str
    messages: Sequence[Chat]
    max_tokens: int
    tools: Sequence[Chat] | None
    tool_choice: object


def read(body: Mapping[str, Any], *, inline: bool, counted: bool = False) -> Asked:
    """Check and translate a request.

    Args:
        body: parsed.
        inline: whether system messages stay where they are in the conversation.
        counted: it asks for a count of its tokens, and so needs no limit.

    Raises:
        BadRequestError: naming what is wrong.
    """
    required = ("model", "messages") if counted else ("model", "messages", "max_tokens")
    if missing := [f"{name}: Field required" for name in required if body.get(name) is None]:
        raise BadRequestError("; ".join(missing), kind=SCHEMA)
    model = text(body, "model")
    if not model:
        raise BadRequestError("model: Value error, Model is required", kind=SCHEMA)
    max_tokens = 1 if counted else integer(body, "max_tokens") or 0
    if max_tokens < 1:
        raise BadRequestError("max_tokens: Value error, max_tokens must be positive", kind=SCHEMA)
    messages = body["messages"]
    if not isinstance(messages, list):
        raise BadRequestError("messages: Input should be a valid list", kind=SCHEMA)
    for index, message in enumerate(messages):
        _check_message(message, f"messages.{index}")
    if isinstance(body.get("system"), list):
        _check_blocks(body["system"], "system")
    else:
        text(body, "system")
    tools = _tools(body)
    return Asked(
        model=model,
        messages=_chat(body.get("system"), messages, inline=inline),
        max_tokens=max_tokens,
        tools=tools,
        tool_choice=_tool_choice(body.get("tool_choice"), tools),
    )


def _check_message(message: object, where: str) -> None:
    if not isinstance(message, Mapping):
        raise BadRequestError(f"{where}: Input should be a valid dictionary", kind=SCHEMA)
    if message.get("role") not in _ROLES:
        raise BadRequestError(f"{where}.role: Input should be 'user', 'assistant' or 'system'", kind=SCHEMA)
    if isinstance(message.get("content"), list):
        _check_blocks(message["content"], f"{where}.content")
    elif not isinstance(message.get("content"), str):
        raise BadRequestError(f"{where}.content: Input should be a valid string or list", kind=SCHEMA)


def _check_blocks(blocks: Sequence[object], where: str) -> None:
    for index, block in enumerate(blocks):
        if not isinstance(block, Mapping) or block.get("type") not in list(_BLOCKS):
            raise BadRequestError(f"{where}.{index}: Input should be a content block", kind=SCHEMA)
        needed = _BLOCKS[block["type"]]
        if needed is not None and not isinstance(block.get(needed), str):
            raise BadRequestError(f"{where}.{index}.{needed}: Input should be a valid string", kind=SCHEMA)
        if block["type"] == "tool_use" and not isinstance(block.get("input", {}), Mapping):
            raise BadRequestError(f"{where}.{index}.input: Input should be a valid dictionary", kind=SCHEMA)
        if block["type"] == "tool_result" and isinstance(block.get("content"), list):
            _check_blocks(block["content"], f"{where}.{index}.content")


def _chat(system: object, messages: Sequence[Mapping[str, Any]], *, inline: bool) -> list[Chat]:
    first: list[str] = []
    if isinstance(system, str):
        first += [system] if system.strip() else []
    elif isinstance(system, list):
        first += [block["text"] for block in system if block["type"] == "text" and block["text"]]
    chat: list[Chat] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "system" and not inline:
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            texts = (block["text"].strip() for block in blocks if block["type"] == "text")
            if later := "\n".join(text for text in texts if text):
                first.append(later)
        elif isinstance(content, str):
            chat.append({"role": role, "content": content})
        else:
            chat += _of_blocks(role, content)
    return [{"role": "system", "content": "\n".join(first)}, *chat] if first else chat


def _of_blocks(role: str, blocks: Sequence[Mapping[str, Any]]) -> Iterator[Chat]:
    """One message's blocks, as messages of a chat: what a tool returned is one of its own."""
    parts: list[Chat] = []
    calls: list[Chat] = []
    for block in blocks:
        match block["type"]:
            case "text":
                parts.append({"type": "text", "text": block["text"]})
            case "tool_use":
                calls.append(_call(block))
            case "tool_result" if role == "user":
                if parts:
                    yield {"role": role, "content": parts}
                    parts = []
                called = block.get("tool_use_id") or block.get("id") or ""
                yield {"role": "tool", "tool_call_id": called, "content": _result(block.get("content"))}
            case "redacted_thinking":
                raise BadRequestError("Anthropic redacted_thinking history is not supported", kind=INVALID)
            case _:  # images, and thoughts, which templates drop
                pass
    if calls:
        yield {"role": role, "content": parts or None, "tool_calls": calls}
    elif parts or role == "assistant":
        yield {"role": role, "content": parts}


def _call(block: Mapping[str, Any]) -> Chat:
    arguments = json.dumps(block.get("input") or {})
    function = {"name": block["name"], "arguments": arguments}
    return {"id": str(block.get("id") or f"call_{uuid.uuid4().hex}"), "type": "function", "function": function}


def _result(content: object) -> str | list[Chat]:
    if not isinstance(content, list):
        return str(content) if content else ""
    return [{"type": "text", "text": block["text"]} for block in content if block["type"] == "text" and block["text"]]


def _tools(body: Mapping[str, Any]) -> list[Chat] | None:
    tools = body.get("tools")
    if tools is None:
        return None
    if not isinstance(tools, list) or not all(isinstance(tool, Mapping) for tool in tools):
        raise BadRequestError("tools: Input should be a valid list", kind=SCHEMA)
    chat: list[Chat] = []
    for index, tool in enumerate(tools):
        if not isinstance(tool.get("name"), str):
            raise BadRequestError(f"tools.{index}.name: Input should be a valid string", kind=SCHEMA)
        if str(tool.get("type") or "").startswith(_SERVER_TOOLS):
            continue
        schema = tool.get("input_schema")
        if not isinstance(schema, Mapping):
            raise BadRequestError(f"tools.{index}.custom.input_schema: Field required", kind=SCHEMA)
        function = {
            "name": tool["name"],
            "description": tool.get("description") or "",
            "parameters": dict(schema) if "type" in schema else {**schema, "type": "object"},
            "strict": bool(tool.get("strict")),
        }
        chat.append({"type": "function", "function": function})
    return chat or None


def _tool_choice(choice: object, tools: Sequence[Chat] | None) -> object:
    if choice is None:
        return None
    kind = choice.get("type") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or kind not in ("auto", "any", "tool", "none"):
        raise BadRequestError("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'", kind=SCHEMA)
    if tools is None and kind in ("any", "tool"):
        raise BadRequestError(
            f"tool_choice={kind!r} requires at least one custom tool; all supplied tools were server-side Anthropic "
            "built-ins which the OpenAI-compatible backend cannot invoke",
            kind=INVALID,
        )
    if kind != "tool":
        return kind
    name = choice.get("name")
    if not any(tool["function"]["name"] == name for tool in tools or ()):
        raise BadRequestError(
            f"tool_choice references tool {name!r} but it is not in the forwarded tools list "
            "(server-side Anthropic tools cannot be selected)",
            kind=INVALID,
        )
    return {"type": "function", "function": {"name": name}}
