"""What a reply says about its tokens, whichever client the reply came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["TokenUsage"]

# Where each client puts each figure, first match wins. OpenAI chat and completions; OpenAI responses and
# LangChain's usage_metadata; SGLang's native meta_info.
_PROMPT = (("prompt_tokens",), ("input_tokens",))
_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("input_token_details", "cache_read"),
    ("cached_tokens",),
)
_OUTPUT = (("completion_tokens",), ("output_tokens",))


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """Tokens of one step. Each field may be unknown: an engine without a cache report says nothing of ``cached``."""

    prompt: int | None = None
    """Tokens in the request."""
    cached: int | None = None
    """Of these, found in the engine's prefix cache."""
    output: int | None = None
    """Tokens generated."""

    @classmethod
    def of(cls, usage: object) -> TokenUsage:
        """Read any client's usage object or mapping; what is not there, or is no count, is unknown. Never raises."""
        if isinstance(usage, cls):
            return usage
        prompt, cached, output = (_first(usage, paths) for paths in (_PROMPT, _CACHED, _OUTPUT))
        read = _first(usage, (("cache_read_input_tokens",),))
        if prompt is not None and read is not None and _first(usage, (("prompt_tokens",),)) is None:
            # Anthropic's input_tokens are those after the cached ones.
            prompt, cached = prompt + read + (_first(usage, (("cache_creation_input_tokens",),)) or 0), read
        if prompt is not None and cached is not None and cached > prompt:
            cached = None  # more cached than asked is no count of this request
        return cls(prompt=prompt, cached=cached, output=output)

    @property
    def context(self) -> int | None:
        """Tokens the engine holds for the agent after this step, or None when either part is unknown."""
        return None if self.prompt is None or self.output is None else self.prompt + self.output


def _first(usage: object, paths: tuple[tuple[str, ...], ...]) -> int | None:
    for path in paths:
        value: Any = usage
        for key in path:
            try:
                value = value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)
            except Exception:  # noqa: BLE001 - a client's object may compute its fields, and fail at it
                value = None
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None
