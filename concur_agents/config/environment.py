"""What the environment may override: one table, which the command line's help and the documentation repeat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from concur_agents.config.shorthand import DEFAULT_LAW, long_law
from concur_agents.config.words import Path

__all__ = ["CONFIG_VARIABLE", "ENVIRONMENT", "KEY_VARIABLE", "Variable", "override"]

_ENGINE: Final[Path] = ("engines", 0, "url")
CONFIG_VARIABLE: Final = "CONCUR_CONFIG"
KEY_VARIABLE: Final = "CONCUR_ENGINE_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable. Empty is the same as not set."""

    name: str
    path: Path
    """The field that it overrides; empty for the file's own name."""
    meaning: str


ENVIRONMENT: Final = (
    Variable(name=CONFIG_VARIABLE, path=(), meaning="path of the file, where the program names none"),
    Variable(name="CONCUR_CONTROLLER", path=("controller",), meaning="a shared controller's address"),
    Variable(
        name="CONCUR_ENGINE_URL",
        path=("engines", 0, "url"),
        meaning="the engine's address; several, with spaces",
    ),
    Variable(name="CONCUR_ENGINE_KIND", path=("engines", 0, "kind"), meaning="sglang, vllm or tensorrt_llm"),
    Variable(name=KEY_VARIABLE, path=("engines", 0, "api_key_env"), meaning="the engine's key itself"),
    Variable(name="CONCUR_FALLBACK", path=("fallback",), meaning="unlimited, or a number of agents"),
    Variable(name="CONCUR_LAW", path=("law",), meaning="a law's name, or fixed:N"),
    Variable(name="CONCUR_LOG_LEVEL", path=("logging", "level"), meaning="debug, info, warning, error or critical"),
)
"""In the order of the documentation."""


def override(data: dict[str, Any], env: Mapping[str, str]) -> dict[Path, str]:
    """Put what the environment says into ``data``; return which variable each field is from."""
    origins: dict[Path, str] = {}
    for variable in ENVIRONMENT:
        text = env.get(variable.name, "").strip()
        if not text or not variable.path:
            continue
        if variable.path == ("law",):
            changed = _override_law(data, text)
        elif variable.path == _ENGINE and _are_several(data.get("engines"), text):
            urls = text.split()
            data["engines"] = [{"url": url} for url in urls]
            changed = [("engines", number, "url") for number in range(len(urls))]
        else:
            changed = _put(data, variable.path, _value(variable, text))
        origins |= dict.fromkeys(changed, variable.name)
    return origins


def _are_several(engines: object, text: str) -> bool:
    """Whether the list is replaced: it has several engines, or is to have several."""
    if engines is not None and not isinstance(engines, list):
        return False
    return len(text.split()) > 1 or len(engines or ()) > 1


def _value(variable: Variable, text: str) -> object:
    if variable.path[-1] == "api_key_env":
        return variable.name  # so the key itself is in no configuration, and cannot be shown
    if variable.path == ("fallback",):
        try:
            return float(text)
        except ValueError:
            return text
    return text


def _put(data: dict[str, Any], path: Path, value: object) -> list[Path]:
    """Set the field; not where the file has something in its way that will be refused."""
    if path[0] == "engines":
        engines = data.setdefault("engines", [{}])
        if not isinstance(engines, list) or not all(isinstance(each, dict) for each in engines):
            return []
        for each in engines:  # what is said of the engine is said of all
            each[path[-1]] = value
        return [("engines", number, path[-1]) for number in range(len(engines))]
    place: Any = data
    for step in path[:-1]:
        place = place.setdefault(step, {})
        if not isinstance(place, dict):
            return []
    place[path[-1]] = value
    return [path]


def _override_law(data: dict[str, Any], text: str) -> list[Path]:
    law = long_law(text)
    before = data.get("law", {})
    if isinstance(before, dict) and before.get("name", DEFAULT_LAW) == law["name"]:
        data["law"] = before | law
        return [("law", name) for name in law]
    data["law"] = law
    return [("law",), *(("law", name) for name in law)]
