"""Parameter checks whose messages name the field and its value."""

from __future__ import annotations

import math

__all__ = ["check_at_least", "check_range"]


def check_range(owner: object, field: str, low: float, high: float, *, open_low: bool = False) -> None:
    """Raise ValueError unless ``owner.field`` is a number in ``low..high`` (without ``low`` itself if ``open_low``)."""
    value = getattr(owner, field)
    number = isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
    if not number or not low <= value <= high or (open_low and value == low):
        start = f"({low:g}" if open_low else f"[{low:g}"
        raise ValueError(f"{type(owner).__name__}: {field} must be a number in {start}, {high:g}], got {value!r}")


def check_at_least(owner: object, field: str, low: float) -> None:
    """Raise ValueError unless ``owner.field`` is a number of at least ``low``; ``inf`` is allowed."""
    check_range(owner, field, low, math.inf)
