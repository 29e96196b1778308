"""What an emulated vLLM is made of. What other engines have too is named as theirs, so that an arm can set it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["VllmConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmConfig:
    """Size and limits of one engine. Defaults are those of vLLM 0.32.0's server on a card of 70 GiB or more.

    Raises:
        ValueError: naming the field and its value.
    """

    max_total_tokens: int
    """KV pool, in tokens: ``num_gpu_blocks`` x block size, as ``cache_config_info`` says it. vLLM keeps one block of it
    for itself (its null block), so that requests share one block less."""
    page_size: int = 16
    """Tokens per block (``--block-size``)."""
    context_length: int = 32_768
    """Longest prompt plus output, in tokens (``--max-model-len``); vLLM does not start where the pool is smaller."""
    max_batched_tokens: int = 8192
    """Most tokens in one forward pass, decoded and prefilled together (``--max-num-batched-tokens``)."""
    max_running_requests: int = 1024
    """Most requests that run at once (``--max-num-seqs``)."""
    watermark: float = 0.0
    """Share of the pool that admission leaves free while something runs (``--watermark``). In [0, 1)."""

    def __post_init__(self) -> None:
        for name in ("page_size", "context_length", "max_running_requests"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.max_total_tokens % self.page_size or self.max_total_tokens < 2 * self.page_size:
            raise ValueError(
                f"max_total_tokens must be two or more whole blocks of {self.page_size}, got {self.max_total_tokens}"
            )
        if self.context_length > self.max_total_tokens - self.page_size:
            raise ValueError(
                f"context_length must fit the pool without its null block, {self.max_total_tokens - self.page_size} "
                f"tokens, got {self.context_length}"
            )
        if self.max_batched_tokens < self.max_running_requests:
            raise ValueError(
                f"max_batched_tokens must be at least max_running_requests, {self.max_running_requests}, "
                f"got {self.max_batched_tokens}"
            )
        if not 0 <= self.watermark < 1:
            raise ValueError(f"watermark must be in [0, 1), got {self.watermark}")

    @property
    def blocks(self) -> int:
        """Blocks that requests can have."""
        return self.max_total_tokens // self.page_size - 1

    @property
    def watermark_blocks(self) -> int:
        """Blocks that admission leaves free while something runs."""
        return int(self.watermark * (self.max_total_tokens // self.page_size))
