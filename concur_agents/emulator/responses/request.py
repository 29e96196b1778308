"""What a request of the Responses API asks for, and whether SGLang takes it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from concur_agents.emulator.fields import SCHEMA, chosen_tools, flag, integer, text
from concur_agents.emulator.problems import BadRequestError

__all__ = ["Asked", "read", "store_disabled"]

_TOOLS = (
    "function", "web_search", "web_search_preview", "code_interpreter", "file_search", "image_generation",
    "computer_use_preview", "local_shell", "shell", "mcp", "custom", "namespace", "tool_search",
)  # fmt: skip
_CALLABLE = ("function", "custom")
"""Tools that the model is shown; SGLang takes the others and passes over them."""
_ENCRYPTED, _LOGPROBS = "reasoning.encrypted_content", "message.output_text.logprobs"
_FREEFORM = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The freeform text payload for this tool."}},
    "required": ["input"],
    "additionalProperties": False,
}
"""A custom tool takes plain text, which the model is made to write as this object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that was understood."""

    body: Mapping[str, Any]
    response_id: str
    items: Sequence[Mapping[str, Any]]
    instructions: str | None
    max_tokens: int | None
    tools: Sequence[Mapping[str, Any]]
    tool_choice: Any
    """What of the choice SGLang can honour."""

    @property
    def shown_tools(self) -> list[Mapping[str, Any]] | None:
        """The tools in the prompt, in the chat API's terms."""
        tools = [_chat_tool(tool) for tool in self.tools if tool["type"] in _CALLABLE and tool.get("name")]
        choice = self.tool_choice
        if isinstance(choice, Mapping):
            choice = {"type": "function", "function": {"name": choice["name"]}}
        return chosen_tools(tools or None, choice)

    @property
    def custom_tools(self) -> frozenset[str]:
        """Names of those whose calls are plain text."""
        return frozenset(str(tool["name"]) for tool in self.tools if tool["type"] == "custom" and tool.get("name"))

    @property
    def reasoning(self) -> Mapping[str, Any]:
        """What the client wants of the model's reasoning."""
        return self.body.get("reasoning") or {}

    @property
    def encrypts_reasoning(self) -> bool:
        """Whether reasoning is to come as an opaque blob, too."""
        return _ENCRYPTED in (self.body.get("include") or ())


def read(body: Mapping[str, Any], model: str) -> Asked:
    """Check a request.

    Args:
        body: parsed.
        model: the one that is served.

    Raises:
        BadRequestError: naming what is wrong.
    """
    items = body.get("input")
    if items is None:
        raise BadRequestError("input: Field required", kind=SCHEMA)
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise BadRequestError("input: Input should be a valid string or list", kind=SCHEMA)
    for name, kind in (("include", list), ("reasoning", Mapping), ("text", Mapping), ("metadata", Mapping)):
        if body.get(name) is not None and not isinstance(body[name], kind):
            raise BadRequestError(f"{name}: Input should be a valid {kind.__name__.lower()}", kind=SCHEMA)
    choice = body.get("tool_choice", "auto")
    if choice not in ("auto", "required", "none") and not isinstance(choice, Mapping):
        raise BadRequestError("tool_choice: Input should be 'auto', 'required' or 'none'", kind=SCHEMA)
    tools = _tools(body)
    choice = _effective(choice)
    _check(body, model, tools, choice)
    return Asked(
        body=body,
        response_id=text(body, "request_id") or f"resp_{uuid.uuid4().hex}",
        items=items,
        instructions=text(body, "instructions"),
        max_tokens=integer(body, "max_output_tokens"),
        tools=tools,
        tool_choice=choice,
    )


def store_disabled(param: str) -> BadRequestError:
    """What a server says that keeps no responses."""
    return BadRequestError(
        "Response store is disabled. Stateful Responses require --enable-response-store on a standalone server; "
        "response storage is unavailable in PD mode.",
        param=param,
    )


def _check(body: Mapping[str, Any], model: str, tools: Sequence[Mapping[str, Any]], choice: Any) -> None:
    """In SGLang's order."""
    if any(tool["type"] == "shell" for tool in tools):
        raise BadRequestError("Shell tools are not supported by this model", param="tools")
    if text(body, "previous_response_id") is not None:
        raise store_disabled("previous_response_id")
    if flag(body, "background"):
        raise store_disabled("background")
    named = text(body, "model")
    if named is None:
        raise BadRequestError("1 validation error for ChatCompletionRequest: model: Input should be a valid string")
    if model not in (named, named.partition(":")[0].strip()):
        raise BadRequestError(f"The model '{named}' does not exist", status=404, param="model")
    if choice == "required" and not any(tool["type"] in _CALLABLE for tool in tools):
        raise BadRequestError(
            'tool_choice="required" requires at least one tool with type="function" or type="custom"; other built-in '
            "tool types cannot be forced."
        )
    if isinstance(choice, Mapping) and not any(
        tool["type"] in _CALLABLE and tool.get("name") == choice["name"] for tool in tools
    ):
        raise BadRequestError(f"Tool {choice['name']!r} is not declared in tools", param="tool_choice")
    if flag(body, "stream") and _LOGPROBS in (body.get("include") or ()):
        raise BadRequestError("logprobs are not supported in streaming mode", param="logprobs")


def _tools(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    tools = body.get("tools", [])
    if not isinstance(tools, list):
        raise BadRequestError("tools: Input should be a valid list", kind=SCHEMA)
    for index, tool in enumerate(tools):
        if not isinstance(tool, Mapping) or tool.get("type") not in _TOOLS:
            raise BadRequestError(f"tools.{index}.type: Input should be a known type of tool", kind=SCHEMA)
        if tool["type"] == "function" and not isinstance(tool.get("name"), str):
            raise BadRequestError(f"tools.{index}: Value error, Function tools must include a name.", kind=SCHEMA)
    return tools


def _effective(choice: Any) -> Any:
    if not isinstance(choice, Mapping):
        return choice
    function = choice.get("function")
    name = choice.get("name") or (function.get("name") if isinstance(function, Mapping) else None)
    return {"type": choice["type"], "name": name} if choice.get("type") in _CALLABLE and name else "auto"


def _chat_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    custom = tool["type"] == "custom"
    function = {
        "name": tool["name"],
        "description": tool.get("description"),
        "parameters": _FREEFORM if custom else tool.get("parameters"),
        "strict": bool(tool.get("strict")),
    }
    return {"type": "function", "function": function}
