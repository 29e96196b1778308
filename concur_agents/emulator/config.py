"""What an emulated engine is made of: pool, limits and the scheduler's knobs, named as SGLang's flags."""

from __future__ import annotations

from dataclasses import dataclass

from concur_agents.emulator.hicache.config import HiCacheConfig

__all__ = ["EngineConfig"]

SMALLEST = 8  # tokens: room for a prompt of one beside the 5 that are kept free (see max_prompt_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Size and scheduling of one engine. Defaults are SGLang 0.5.23's unless said.

    Raises:
        ValueError: naming the field and its value.
    """

    max_total_tokens: int = 16_000
    """KV pool, in tokens; whole pages."""
    page_size: int = 1
    """Tokens per KV page."""
    context_length: int = 32_768
    """Longest prompt plus output, in tokens."""
    chunked_prefill_size: int | None = 4096
    """Most new tokens in one prefill pass; None prefills a prompt in one pass."""
    max_prefill_tokens: int = 16_384
    """Bound on a prefill pass when chunking is off."""
    max_running_requests: int = 2048
    """Most requests decoding at once."""
    max_queued_requests: int | None = None
    """Requests that may wait; the next one is turned away with 503. None: no limit."""
    schedule_conservativeness: float = 1.0
    """Scales how much of a request's output length admission reserves at first (0.7 of it at 1.0)."""
    decode_log_interval: int = 40
    """Decode steps between two updates of the gauges."""
    hicache: HiCacheConfig | None = None
    """The cache's tier in host memory (``--enable-hierarchical-cache``); None for none."""

    def __post_init__(self) -> None:
        if self.page_size < 1:
            raise ValueError(f"page_size must be at least 1, got {self.page_size}")
        if self.max_total_tokens < max(SMALLEST, 2 * self.page_size) or self.max_total_tokens % self.page_size:
            raise ValueError(
                f"max_total_tokens must be two or more whole pages of {self.page_size} and at least {SMALLEST}, "
                f"got {self.max_total_tokens}"
            )
        if self.context_length < SMALLEST:
            raise ValueError(f"context_length must be at least {SMALLEST}, got {self.context_length}")
        if self.chunked_prefill_size is not None and (
            self.chunked_prefill_size < 1 or self.chunked_prefill_size % self.page_size
        ):
            raise ValueError(
                f"chunked_prefill_size must be None or whole pages of {self.page_size}, got {self.chunked_prefill_size}"
            )
        for name in ("max_prefill_tokens", "max_running_requests", "decode_log_interval"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.max_queued_requests is not None and self.max_queued_requests < 1:
            raise ValueError(f"max_queued_requests must be None or at least 1, got {self.max_queued_requests}")
        if not 0 < self.schedule_conservativeness < float("inf"):
            raise ValueError(f"schedule_conservativeness must be positive, got {self.schedule_conservativeness}")

    @property
    def max_request_tokens(self) -> int:
        """Longest prompt plus output a request may reach, by context length and by pool."""
        return min(self.context_length, self.max_total_tokens) - 1

    @property
    def max_prompt_tokens(self) -> int:
        """A prompt must be shorter than this.

        SGLang keeps 5 tokens of the longest request free of it; and what admission sets aside for rounding (a page)
        must be free beside it, or it would wait for ever.
        """
        return min(self.max_request_tokens - 5, self.max_total_tokens - self.page_size)
