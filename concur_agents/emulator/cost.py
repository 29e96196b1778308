"""How long a forward pass takes: a frozen formula of a handful of numbers, loadable from JSON."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

__all__ = ["CostModel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Seconds of one forward pass. All numbers are at least 0 and finite.

    A prefill of ``n`` new tokens behind ``c`` cached ones costs, summed over the batch::

        prefill_base_s + n * prefill_token_s + (n * c + n * n / 2) * prefill_pair_s + c * prefill_cached_s

    (each new token attends to the cached ones and, on average, half the new ones; each cached token's keys and values
    are read once, which shows where few new tokens follow many). ``prefill_floor_s`` bounds it from below: a short
    prefill still reads all the weights. A decode step of ``b`` sequences holding ``t`` tokens::

        decode_base_s + b * decode_seq_s + t * decode_token_s

    Kernels change with the size of a batch, so a measured engine may be far from a line (SGLang on a CPU: 30 ms for 15
    sequences and 22 for 16). ``decode_batch_s`` then takes the place of ``decode_base_s + b * decode_seq_s``: pairs
    of sequences and seconds, in order, with a line between two of them, and beyond the last one through the last two.

    With a host tier (``hicache``), a token's way from host memory to the cards takes ``load_token_s`` and its way back
    ``backup_token_s``, each in a direction of its own of each card's own link; ``token_link_bytes`` is what crosses
    each of these links for a token. Layers are loaded one after the other while those before them compute.

    Raises:
        ValueError: naming the field and its value.
    """

    prefill_base_s: float = 0.0
    prefill_token_s: float
    prefill_pair_s: float = 0.0
    prefill_cached_s: float = 0.0
    prefill_floor_s: float = 0.0
    decode_base_s: float
    decode_seq_s: float = 0.0
    decode_token_s: float = 0.0
    decode_batch_s: tuple[tuple[int, float], ...] = ()
    load_token_s: float = 0.0
    backup_token_s: float = 0.0
    token_link_bytes: float = 0.0
    """Only counted."""
    layers: float = 1.0
    """At least 1; 1 is no overlap of loading and computing."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "decode_batch_s":
                object.__setattr__(self, field.name, _checked_batches(value))
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ValueError(f"{field.name} must be a number of seconds, got {value!r}")
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"{field.name} must be finite and at least 0, got {value}")
        if self.decode_base_s + self.decode_seq_s <= 0:
            raise ValueError(f"decode_base_s must be positive where decode_seq_s is 0, got {self.decode_base_s}")
        if self.layers < 1:
            raise ValueError(f"layers must be at least 1, got {self.layers}")

    def prefill_s(self, batch: Iterable[tuple[int, int]]) -> float:
        """Seconds to prefill a batch of ``(new tokens, tokens already in the cache)``."""
        total = self.prefill_base_s
        for new, cached in batch:
            total += new * self.prefill_token_s + new * (cached + new / 2) * self.prefill_pair_s
            total += cached * self.prefill_cached_s
        return max(total, self.prefill_floor_s)

    def decode_s(self, sequences: int, tokens: int) -> float:
        """Seconds of one decode step of ``sequences`` requests that hold ``tokens`` tokens together."""
        return self.decode_of_s(sequences) + tokens * self.decode_token_s

    def decode_of_s(self, sequences: int) -> float:
        """The same of requests that hold nothing."""
        known = self.decode_batch_s
        if not known:
            return self.decode_base_s + sequences * self.decode_seq_s
        if len(known) == 1 or sequences <= known[0][0]:
            return known[0][1]
        after = min(bisect_left(known, (sequences,)), len(known) - 1)
        (least, low), (most, high) = known[after - 1], known[after]
        slope = (high - low) / (most - least)
        return low + (sequences - least) * slope if sequences <= most else high + (sequences - most) * max(0.0, slope)

    def loading_s(self, prefill_s: float, loaded: int) -> float:
        """Seconds of a prefill pass of ``prefill_s`` that also waits for ``loaded`` tokens from host memory.

        Their load is one operation for the whole pass, so requests share the link; a layer computes once it is there.
        The slower of the two sets the pace, and the other adds its first or last layer.
        """
        load_s = loaded * self.load_token_s
        return max(prefill_s, load_s) + min(prefill_s, load_s) / self.layers

    @classmethod
    def load(cls, path: str | Path) -> CostModel:
        """Read a model from a JSON object of its fields.

        Raises:
            ValueError: when the file is not such an object; says which field is wrong.
            OSError: when it cannot be read.
        """
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path}: not JSON: {error}") from error
        if not isinstance(data, dict):
            raise ValueError(f"{path}: a cost model is a JSON object, got {type(data).__name__}")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(data) - known):
            raise ValueError(f"{path}: unknown fields {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        try:
            return cls(**data)
        except TypeError as error:
            raise ValueError(f"{path}: {error}") from error

    def save(self, path: str | Path) -> None:
        """Write what :meth:`load` reads."""
        Path(path).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


def _checked_batches(value: object) -> tuple[tuple[int, float], ...]:
    """As from JSON, too. Raises ValueError."""
    pairs: list[Any] | tuple[Any, ...] = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(pair, list | tuple) and len(pair) == 2 and all(map(_is_positive, pair)) for pair in pairs):
        raise ValueError(f"decode_batch_s must be pairs of sequences and seconds, all of them above 0, got {value!r}")
    sizes = [sequences for sequences, _ in pairs]
    if sizes != sorted(set(sizes)):
        raise ValueError(f"decode_batch_s must have each number of sequences once, in order, got {sizes}")
    return tuple((sequences, float(seconds)) for sequences, seconds in pairs)


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
