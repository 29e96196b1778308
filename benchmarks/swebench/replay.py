"""Scripted replies on an engine that plays no scripts: it does the work of each generation, the script says the words.

Each request asks the engine for exactly as many tokens as the scripted reply has, so prefill, decode and cache are
real; then the text is replaced. The one difference to a model that really says it: the next prompt holds other tokens
than were generated, so the reply itself (not what was before it) is prefilled again.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage

__all__ = ["ReplayMiddleware", "Script"]

Script = Sequence[Mapping[str, Any]]
"""Replies in the emulator's script format: ``content``, ``tool_calls`` (``name``, ``arguments``), ``output_tokens``."""

CHARS_PER_TOKEN = 4
"""For replies whose script does not say how many tokens they have: about right for English and code."""


class ReplayMiddleware(AgentMiddleware[Any, Any, Any]):
    """Says ``replies`` in order, one a generation. Goes innermost, so that everything else sees the scripted reply.

    Args:
        replies: the script.
    """

    def __init__(self, replies: Script) -> None:
        super().__init__()
        self._replies = replies

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Have the engine generate, and say the script's words.

        Raises:
            IndexError: the script has ended and the agent has not.
        """
        said = sum(isinstance(message, AIMessage) for message in request.messages)
        if said >= len(self._replies):
            raise IndexError(f"the script has {len(self._replies)} replies, and the agent asked for another one")
        reply = self._replies[said]
        length = {"max_tokens": reply.get("output_tokens") or max(1, len(json.dumps(reply)) // CHARS_PER_TOKEN)}
        body = {**request.model_settings.get("extra_body", {}), "ignore_eos": True}
        response = await handler(
            request.override(model_settings={**request.model_settings, **length, "extra_body": body})
        )
        generated = response.result[-1]
        calls = [
            {"id": f"call_{said}_{number}", "name": call["name"], "args": _arguments(call["arguments"])}
            for number, call in enumerate(reply.get("tool_calls") or ())
        ]
        message = AIMessage(
            reply.get("content") or "",
            tool_calls=calls,
            usage_metadata=getattr(generated, "usage_metadata", None),
            response_metadata=generated.response_metadata,
            id=generated.id,
        )
        return ModelResponse(result=[message])


def _arguments(arguments: str | Mapping[str, Any]) -> dict[str, Any]:
    """A script gives arguments as an object, or as the JSON text that goes over the wire."""
    return dict(json.loads(arguments) if isinstance(arguments, str) else arguments)
