"""The host tier's flags."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

__all__ = ["HiCacheConfig", "WritePolicy"]


class WritePolicy(enum.StrEnum):
    """When KV is copied to host memory: SGLang's ``--hicache-write-policy``, of which ``write_back`` is not there."""

    WRITE_THROUGH = "write_through"
    """As soon as it is in the tree."""
    SELECTIVE = "write_through_selective"
    """As soon as a second request has put it there."""

    @property
    def hits(self) -> int:
        """Requests that must have inserted a node before it is copied."""
        return 1 if self is WritePolicy.WRITE_THROUGH else 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HiCacheConfig:
    """Size and habits of the host tier. Defaults are SGLang 0.5.23's with ``--enable-hierarchical-cache``.

    How fast it is says the cost model (``load_token_s``, ``backup_token_s``, ``layers``).

    Raises:
        ValueError: naming the field and its value.
    """

    ratio: float = 2.0
    """Host pool as a multiple of the device pool (``--hicache-ratio``). Above 0."""
    host_tokens: int | None = None
    """Host pool in tokens, in place of the ratio (SGLang's ``--hicache-size`` says it in GB a rank). At least 1."""
    write_policy: WritePolicy = WritePolicy.WRITE_THROUGH
    load_back_threshold: int = 10
    """Fewer tokens than this are computed rather than loaded (fixed in SGLang). At least 0."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.ratio) and self.ratio > 0):
            raise ValueError(f"ratio must be positive and finite, got {self.ratio}")
        if self.host_tokens is not None and self.host_tokens < 1:
            raise ValueError(f"host_tokens must be None or at least 1, got {self.host_tokens}")
        if not isinstance(self.write_policy, WritePolicy):
            raise ValueError(f"write_policy must be a WritePolicy, got {self.write_policy!r}")
        if self.load_back_threshold < 0:
            raise ValueError(f"load_back_threshold must be at least 0, got {self.load_back_threshold}")

    def capacity(self, device_tokens: int, page_size: int) -> int:
        """Tokens of the host pool: whole pages, and one page more (SGLang keeps it for padding, and then uses it)."""
        wanted = int(device_tokens * self.ratio) if self.host_tokens is None else self.host_tokens
        return (wanted // page_size + 1) * page_size
