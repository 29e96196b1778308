"""What pydantic found, said in our words: where, what it must be, what it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from concur_agents.config.files import Document
from concur_agents.config.laws import LAWS
from concur_agents.config.schema import allowed, section_at
from concur_agents.config.shorthand import DEFAULT_LAW
from concur_agents.config.words import Path, did_you_mean, dotted, shown

__all__ = ["Places", "problems_of"]

_SHORT: Path = ("engine",)
_ENGINE: Path = ("engines", 0, "url")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where each field's value is from."""

    document: Document = field(default_factory=lambda: Document({}))
    block: Path = ()
    """Of the configuration within the document."""
    short: bool = False
    """The engine is given by ``engine``."""
    given: frozenset[Path] = frozenset()
    """Fields that the document sets."""
    variables: Mapping[Path, str] = field(default_factory=dict)
    """Fields that the environment sets."""

    def variable(self, path: Path) -> str | None:
        """The environment variable that a field is from."""
        return next((name for name in (self.variables.get(path[:n]) for n in range(len(path), 0, -1)) if name), None)

    def label(self, path: Path) -> str:
        """How a problem with a field begins."""
        variable = self.variable(path)
        if variable is not None:
            return variable if path in self.variables else f"{variable}: {dotted(path)}"
        whole = self._whole(path)
        name = dotted(whole) or "the configuration"
        return name if self.document.name is None else f"{self._line_of(whole)}: {name}"

    def origin(self, path: Path) -> str:
        """Where a field's value is from, in a word: a variable, a file with its line, or ``default``."""
        if path in self.variables:
            return self.variables[path]
        if path not in self.given or self.variable(path) is not None:  # what a variable put in its place has defaults
            return "default"
        return "the mapping" if self.document.name is None else self._line_of(self._whole(path))

    def _whole(self, path: Path) -> Path:
        """The path in the document."""
        return (*self.block, *(_SHORT if self.short and path == _ENGINE else path))

    def _line_of(self, whole: Path) -> str:
        lines = self.document.lines
        line = next((lines[whole[:n]] for n in range(len(whole), 0, -1) if whole[:n] in lines), None)
        return f"{self.document.name}{'' if line is None else f':{line}'}"


def problems_of(error: ValidationError, data: Mapping[str, Any], places: Places) -> Iterable[str]:
    """One line for each thing that is wrong."""
    law = data.get("law", {})
    name = law.get("name", DEFAULT_LAW) if isinstance(law, dict) else None
    for each in error.errors(include_url=False):
        path = _path(each["loc"])
        if path == ("law",) and isinstance(law, dict) and each["type"].startswith("union_tag"):
            hint = f" ({did_you_mean(name, LAWS)})" if isinstance(name, str) else ""
            path = ("law", "name")
            yield f"{places.label(path)} must be {_allowed(path, name)}, got {shown(name)}{hint}"
            continue
        yield f"{places.label(path)} {_text(path, name, each)}"


def _text(path: Path, law: object, error: Any) -> str:
    match error["type"]:
        case "value_error":
            return str(error["ctx"]["error"])
        case "missing":
            return f"is missing: it must be {_allowed(path, law)}"
        case "extra_forbidden":
            if path == _SHORT:
                return "and engines are both given: give one of them"
            if path[0] == "engines" and str(path[-1]).lower() in _KEYS:
                return "is not a known field: put the key into an environment variable, and its name into api_key_env"
            return f"is not a known field ({did_you_mean(path[-1], section_at(path, law).model_fields)})"
        case "too_long":
            return f"must be {_allowed(path, law)}, got {len(error['input'])}"
    if path[-1:] == ("api_key_env",):
        return f"must be {_allowed(path, law)} (what it is now is not shown: it may be a key)"
    if path in _BLOCKS or path[:-1] == ("engines",):
        return f"must be a block of fields, got {shown(error['input'])}"
    return f"must be {_allowed(path, law)}, got {shown(error['input'])}"


def _allowed(path: Path, law: object) -> str:
    field = section_at(path, law).model_fields.get(str(path[-1]))
    return allowed(field) if field is not None else "a block of fields"


def _path(loc: tuple[int | str, ...]) -> Path:
    """Without the union's branch, which pydantic puts behind ``law``."""
    return (loc[0], *loc[2:]) if loc[:1] == ("law",) else loc


_KEYS = frozenset({"api_key", "apikey", "key", "token", "api_token", "password"})
_BLOCKS: frozenset[Path] = frozenset({("identity",), ("logging",)})
