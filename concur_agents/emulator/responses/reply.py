"""A turn as a response of OpenAI's."""

from __future__ import annotations

import base64
import contextlib
import json
import time
import uuid
from collections.abc import Mapping
from typing import Any

from concur_agents.emulator.request import FinishReason
from concur_agents.emulator.responses.request import Asked
from concur_agents.emulator.turns import Call, Turn

__all__ = ["ResponseReply", "call_item", "failed", "message_item", "reasoning_item", "snapshot", "usage"]

_ECHOED_EFFORTS = ("minimal", "low", "medium", "high")

Item = dict[str, Any]


class ResponseReply:
    """One answer to ``/v1/responses``."""

    def __init__(self, turn: Turn, asked: Asked) -> None:
        self.turn = turn
        self.asked = asked
        self.created = int(time.time())

    def whole(self) -> dict[str, Any]:
        """The reply in one piece."""
        thought, said = self.turn.parts()
        calls = self.turn.calls
        output = [reasoning_item(self.asked, thought)] if thought else []
        output += [message_item(said, phase="commentary" if calls else "final_answer")] if said else []
        output += [call_item(self.asked, call) for call in calls]
        return self.ended(output)

    def ended(self, output: list[Item]) -> dict[str, Any]:
        """The response as it stands in the end.

        Args:
            output: what it says.
        """
        return snapshot(
            self.asked, self.created, status=self._status(), output=output, used=self._usage(), error=self._error()
        )

    def _status(self) -> str:
        match self.turn.answer.request.finish_reason:
            case FinishReason.STOP:
                return "completed"
            case FinishReason.LENGTH:
                return "incomplete"
            case _:
                return "failed"

    def _error(self) -> dict[str, Any] | None:
        if self._status() != "failed":
            return None
        return failed(self.turn.answer.request.abort_message or "Aborted")

    def _usage(self) -> dict[str, Any]:
        """Tells the cached tokens with or without the engine's cache report."""
        request = self.turn.answer.request
        return usage(self.turn.prompt_tokens, request.cached_tokens, request.out)


def usage(prompt: int = 0, cached: int = 0, out: int = 0) -> dict[str, Any]:
    """The usage object of this API."""
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": prompt + out,
    }


def snapshot(
    asked: Asked,
    created: int,
    *,
    status: str,
    output: list[Item] | None = None,
    used: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The response object: what was asked, echoed, and what has come of it so far."""
    body, output = asked.body, output or []
    given = body.get("text")
    plain = bool(output) and all(item["type"] == "message" for item in output)
    effort = asked.reasoning.get("effort", "medium") if asked.reasoning else None
    return {
        "id": asked.response_id,
        "object": "response",
        "created_at": created,
        "model": body.get("model"),
        "output": output,
        "status": status,
        "usage": used,
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "tool_choice": asked.tool_choice,
        "tools": [_tool(tool) for tool in asked.tools],
        "error": error,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": asked.instructions,
        "max_output_tokens": asked.max_tokens,
        "previous_response_id": None,
        "reasoning": {"effort": effort if effort in _ECHOED_EFFORTS else None, "summary": None},
        "store": body.get("store", True),
        "temperature": _decimal(body.get("temperature")),
        "text": given if given is not None else {"format": {"type": "text"}} if plain else None,
        "top_p": _decimal(body.get("top_p")),
        "truncation": body.get("truncation", "disabled"),
        "user": body.get("user"),
        "metadata": body.get("metadata") or {},
    }


def _decimal(value: object) -> object:
    return float(value) if isinstance(value, int) else value


def failed(message: str) -> dict[str, Any]:
    """Why a response failed."""
    return {"code": "server_error", "message": message}


def message_item(text: str, *, phase: str, item_id: str | None = None) -> Item:
    """What the model says."""
    part: Item = {"annotations": [], "text": text, "type": "output_text", "logprobs": None}
    return {
        "id": item_id or f"msg_{uuid.uuid4().hex}",
        "content": [part],
        "role": "assistant",
        "status": "completed",
        "type": "message",
        "phase": phase,
    }


def reasoning_item(asked: Asked, text: str, item_id: str | None = None) -> Item:
    """What it thinks first; in a summary too, where one is asked for."""
    blob = base64.b64encode(text.encode("utf-8", "replace")).decode() if asked.encrypts_reasoning else None
    return {
        "id": item_id or f"rs_{uuid.uuid4().hex}",
        "summary": [{"text": text, "type": "summary_text"}] if asked.reasoning.get("summary") else [],
        "type": "reasoning",
        "content": [{"text": text, "type": "reasoning_text"}],
        "encrypted_content": blob,
        "status": "completed",
    }


def call_item(asked: Asked, call: Call, *, begun: str | None = None, item_id: str | None = None) -> Item:
    """A tool call.

    Args:
        asked: the request.
        call: what is called.
        begun: in place of the arguments, where they are still to come.
        item_id: what it was called before.
    """
    if call.name in asked.custom_tools:
        given = _freeform(call.arguments) if begun is None else begun
        item_id = item_id or f"ctc_{uuid.uuid4().hex[:8]}"
        return {"call_id": call.id, "input": given, "name": call.name, "type": "custom_tool_call", "id": item_id}
    return {
        "arguments": call.arguments if begun is None else begun,
        "call_id": call.id,
        "name": call.name,
        "type": "function_call",
        "id": item_id or f"fc_{uuid.uuid4().hex[:8]}",
        "status": "completed" if begun is None else "in_progress",
    }


def _freeform(arguments: str) -> str:
    with contextlib.suppress(ValueError):
        given = json.loads(arguments)
        if isinstance(given, dict) and isinstance(given.get("input"), str):
            return str(given["input"])
    return arguments


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """As SGLang echoes it: with every field that a tool may have."""
    known = ("name", "description", "parameters", "strict", "tools", "defer_loading", "format")
    filled = {"type": tool["type"], **{name: tool.get(name) for name in known}}
    return {**filled, "strict": bool(tool.get("strict")), **{k: v for k, v in tool.items() if k not in filled}}
