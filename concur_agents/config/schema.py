"""The schema seen from outside: as JSON schema, and field by field."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from concur_agents.config.fields import Allowed, Section
from concur_agents.config.laws import LAWS, OwnLawConfig
from concur_agents.config.models import Config, EngineConfig, IdentityConfig, LoggingConfig
from concur_agents.config.shorthand import DEFAULT_LAW
from concur_agents.config.words import Path

__all__ = ["SECTIONS", "allowed", "fields", "make_schema", "section_at"]

SECTIONS: dict[str, type[Section]] = {"engines": EngineConfig, "identity": IdentityConfig, "logging": LoggingConfig}


def make_schema() -> dict[str, Any]:
    """The JSON schema of a configuration, or of a ``concur`` block."""
    schema = _as_written(Config.model_json_schema())
    properties = schema["properties"]
    properties["law"]["oneOf"].append({"type": "string", "description": "Only a law's name, or fixed:N."})
    properties["engine"] = {"type": "string", "description": "Short for one engine: its url."}
    schema["not"] = {"required": ["engine", "engines"]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def section_at(path: Path, law: object) -> type[Section]:
    """The model of the block that the field is in; ``law`` is the name of the law in force."""
    first, depth = path[0] if path else None, len(path)
    if first == "law" and depth > 1:
        return LAWS.get(str(law), OwnLawConfig)
    if first in SECTIONS and depth > (2 if first == "engines" else 1):
        return SECTIONS[str(first)]
    return Config


def allowed(field: FieldInfo) -> str:
    """What the field may hold, in words that follow "must be"."""
    return next((each.text for each in reversed(_metadata(field)) if isinstance(each, Allowed)), "something else")


def fields(law: str = DEFAULT_LAW) -> Iterator[tuple[Path, FieldInfo]]:
    """Every field that holds a value, in order; of the laws' only one's."""
    for name, field in Config.model_fields.items():
        section = LAWS[law] if name == "law" else SECTIONS.get(name)
        if section is None:
            yield (name,), field
            continue
        start: Path = (name, 0) if name == "engines" else (name,)
        for inner, each in section.model_fields.items():
            yield (*start, inner), each


def _as_written(schema: Any) -> Any:
    """JSON has no infinity, and the titles that pydantic makes of names say nothing."""
    if isinstance(schema, dict):
        return {name: _as_written(each) for name, each in schema.items() if name != "title" or isinstance(each, dict)}
    if isinstance(schema, list):
        return [_as_written(each) for each in schema]
    return "unlimited" if schema == math.inf else schema


def _metadata(field: FieldInfo) -> list[Any]:
    # Of `Annotated[...] | None` pydantic keeps the inner metadata inside the union.
    inner = [each for part in getattr(field.annotation, "__args__", ()) for each in getattr(part, "__metadata__", ())]
    return [*inner, *field.metadata]
