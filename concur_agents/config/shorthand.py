"""Short forms of a configuration, written out in full."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["DEFAULT_LAW", "long_form", "long_law"]

DEFAULT_LAW: Final = "budget"
"""The law of a block without a name, and of a configuration without a law."""


def long_form(data: dict[str, Any]) -> dict[str, Any]:
    """``engine: URL`` becomes a list of one, a law's name a block; and a block with nothing in it is left out."""
    data = {name: value for name, value in data.items() if value is not None or name not in _SECTIONS}
    if "engine" in data and "engines" not in data:
        data["engines"] = [{"url": data.pop("engine")}]
    if isinstance(data.get("law"), str):
        data["law"] = long_law(data["law"])
    return data


def long_law(text: str) -> dict[str, Any]:
    """``budget``, ``fixed:8`` or ``package.module:Class`` as a block."""
    name, _, number = text.partition(":")
    if name != "fixed" or not number:
        return {"name": text}
    try:
        return {"name": name, "n": float(number)}
    except ValueError:
        return {"name": name, "n": number}


_SECTIONS = frozenset({"engine", "engines", "law", "identity", "logging"})
