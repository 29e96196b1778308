"""What is seen of a controller, as JSON values and back: agents, statistics, changes of the window.

JSON has no infinity. A number that is null there is infinite, no limit, where it cannot be unknown; else it is unknown.
"""

from __future__ import annotations

import enum
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar, Union

__all__ = ["from_json", "to_json"]

_Value = TypeVar("_Value")


def to_json(value: Any) -> Any:
    """A frozen value as JSON values."""
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): to_json(each) for name, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.value if isinstance(value, enum.Enum) else value


def from_json(kind: type[_Value], body: Any) -> _Value:
    """And back. What is not there is as by default.

    Raises:
        ValueError: it is no such value.
    """
    try:
        value: _Value = _read(kind, body)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no {kind.__name__}: {type(error).__name__}: {error}") from None
    return value


def _read(kind: Any, value: Any) -> Any:
    if isinstance(kind, type) and is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: _read(hints[name], value[name]) for name in hints if name in value})
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        (kind,) = [each for each in typing.get_args(kind) if each is not type(None)]
        return _read(kind, value)
    if origin is Mapping:
        names, each = typing.get_args(kind)
        return MappingProxyType({names(name): _read(each, one) for name, one in value.items()})
    if kind is float:
        return math.inf if value is None else float(value)
    return kind(value) if value is not None else None


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
