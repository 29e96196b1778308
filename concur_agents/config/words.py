"""How fields and values are named to a person."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

__all__ = ["Path", "did_you_mean", "dotted", "shown"]

Path = tuple[str | int, ...]
"""Of a field: ``("engines", 0, "url")``."""
# Longer values are cut: a message stays one line.
_LONGEST = 60


def dotted(path: Path) -> str:
    """``engines[0].url``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{_name(step)}"
    return text.removeprefix(".")


def shown(value: object) -> str:
    """A value as a file would have it, in a few words; what has parts is not shown."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() if value.bit_length() > 128:
            return "a very large number"  # Python itself refuses to print the largest
        case float() if value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        case int() | float():
            return str(value)
        case str():
            return repr(value) if len(value) <= _LONGEST else f"{value[:_LONGEST]!r}..."
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
    return f"a {type(value).__name__}"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The nearest known name, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(name.lower(), known, n=1) if isinstance(name, str) else []
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"


def _name(step: str) -> str:
    return step if step.isprintable() and 0 < len(step) <= _LONGEST else shown(step)
