"""What a user writes behind a peer's name: ``gradient2:requests,least=20``."""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

__all__ = ["parameters"]

_T = TypeVar("_T")


def parameters(kind: type[_T], argument: str) -> _T:
    """A dataclass with numbers for fields, made of ``key=number`` pairs; a bare word sets its field to 1.

    Hyphens and underscores are the same. Fields that begin with an underscore are a peer's own.

    Raises:
        ValueError: a pair that is none, or a field that is not there, with those that are.
    """
    known = [field.name for field in fields(kind) if not field.name.startswith("_")]  # type: ignore[arg-type]
    chosen: dict[str, float] = {}
    for pair in filter(None, (part.strip() for part in argument.split(","))):
        key, sign, text = pair.partition("=")
        name = key.strip().replace("-", "_")
        if name not in known:
            raise ValueError(f"has no parameter {key!r}: choose from {', '.join(known)}")
        try:
            chosen[name] = float(text) if sign else 1.0
        except ValueError:
            raise ValueError(f"needs key=number, not {pair!r}") from None
    return kind(**chosen)
