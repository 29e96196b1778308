"""From a file, a mapping and the environment to a checked configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from concur_agents.config.environment import CONFIG_VARIABLE, override
from concur_agents.config.files import Document, plain, read_file
from concur_agents.config.models import Config
from concur_agents.config.problems import Places, problems_of
from concur_agents.config.shorthand import long_form
from concur_agents.config.words import Path, dotted, shown
from concur_agents.errors import ConfigError

__all__ = ["Loaded", "load"]

_BLOCK = "concur"
_NO_ENGINE = "no engine is known: set CONCUR_ENGINE_URL, or give engines, a list of {url: http://...}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A good configuration, and where its values are from."""

    config: Config
    places: Places

    def values(self) -> list[tuple[str, str, str]]:
        """Every field that holds a value, its value, and where that is from: a file, a variable, or ``default``."""
        return [
            (dotted(path), value if isinstance(value, str) else shown(value), self.places.origin(path))
            for path, value in _leaves(self.config.model_dump(mode="python"))
        ]


def load(
    source: str | FilePath | Mapping[str, Any] | Config | None, *, env: Mapping[str, str] | None, engine: bool
) -> Loaded:
    """See :func:`concur_agents.config.load_config`."""
    if isinstance(source, Config):
        return Loaded(source, Places())
    env = os.environ if env is None else env
    document = _document(source, env)
    data, block = _block(document)
    short = "engine" in data and "engines" not in data
    data = long_form(data)
    given = frozenset(path for path, _ in _leaves(data))
    variables = override(data, env)
    places = Places(document=document, block=block, short=short, given=given, variables=variables)
    try:
        config = Config.model_validate(data, context=env)
    except ValidationError as error:
        raise ConfigError(*problems_of(error, data, places)) from None  # pydantic's text shows values
    if engine and not config.engines:
        raise ConfigError(f"{document.name}: {_NO_ENGINE}" if document.name else _NO_ENGINE)
    return Loaded(config, places)


def _document(source: str | FilePath | Mapping[str, Any] | None, env: Mapping[str, str]) -> Document:
    if isinstance(source, Mapping):
        return Document(source)
    if source is not None:
        return read_file(source)
    name = env.get(CONFIG_VARIABLE, "").strip()
    if not name:
        return Document({})
    try:
        return read_file(name)
    except ConfigError as error:
        raise ConfigError(*(f"{CONFIG_VARIABLE}: {problem}" for problem in error.problems)) from error


def _block(document: Document) -> tuple[dict[str, Any], Path]:
    """The configuration within the document, and where it is there."""
    block: Path = ()
    try:
        data = plain(document.data)
    except ValueError as error:
        raise ConfigError(f"{Places(document=document).label(())} {error}") from None
    if isinstance(data, dict) and _BLOCK in data:
        data, block = data[_BLOCK], (_BLOCK,)
    if data is None:
        data = {}
    if not isinstance(data, dict):
        label = Places(document=document, block=block).label(())
        raise ConfigError(f"{label} must be a mapping of fields, got {shown(data)}")
    return data, block


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every value within that has no parts itself; those of laws of a user's own may be anything."""
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list | tuple) and path == ("engines",):
        parts = list(enumerate(value))
    else:
        yield path, value
        return
    for name, each in parts:
        yield from _leaves(each, (*path, name))
