"""A file's text as plain data, with the line of each field."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import yaml

from concur_agents.config.words import Path, dotted, shown
from concur_agents.errors import ConfigError

__all__ = ["Document", "plain", "read_file"]

# No configuration is nested so deep; one that holds itself is.
_DEEPEST = 20


@dataclass(frozen=True, slots=True)
class Document:
    """What a file, or a mapping, says."""

    data: Any
    name: str | None = None
    """Of the file, as given."""
    lines: Mapping[Path, int] = field(default_factory=dict)
    """Of each field, counted from 1; only YAML tells them."""


def read_file(name: str | FilePath) -> Document:
    """Read a YAML or TOML file, as its suffix says.

    Raises:
        ConfigError: it cannot be read, or is not what its suffix says.
    """
    path = FilePath(name).expanduser()
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: is not UTF-8 text (byte {error.start})") from error
    except (OSError, ValueError) as error:  # ValueError: no file can have this name
        raise ConfigError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    match path.suffix.lower():
        case ".toml":
            try:
                return Document(tomllib.loads(text), str(name))
            except (tomllib.TOMLDecodeError, RecursionError) as error:
                raise ConfigError(f"{name}: is not TOML: {error}") from error
        case ".yaml" | ".yml":
            return _read_yaml(text, str(name))
    raise ConfigError(f"{name}: must end in .yaml, .yml or .toml")


def plain(value: object, depth: int = 0) -> Any:
    """The same as dicts and lists, whatever kinds of mapping and list it is made of (OmegaConf's, say).

    Raises:
        ValueError: it is nested too deep, or holds itself.
    """
    if depth > _DEEPEST:
        raise ValueError(f"must not be nested deeper than {_DEEPEST} levels")
    if isinstance(value, Mapping):
        return {_key(name): plain(each, depth + 1) for name, each in value.items()}
    # OmegaConf's lists are none of Python's, and no Sequence we want to take apart (a string) either.
    if isinstance(value, list | tuple) or type(value).__name__ == "ListConfig":
        return [plain(each, depth + 1) for each in value]  # type: ignore[attr-defined]
    return value


def _key(name: object) -> str:
    return str(name) if isinstance(name, str) else shown(name)


def _read_yaml(text: str, name: str) -> Document:
    lines: dict[Path, int] = {}
    twice: list[str] = []
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is not None:
            _note_lines(node, (), lines, twice, set())
        data = loader.construct_document(node) if node is not None else None
    except Exception as error:  # what text can make PyYAML's constructors raise is not one tree
        mark = getattr(error, "problem_mark", None)
        where = name if mark is None else f"{name}:{mark.line + 1}"
        raise ConfigError(f"{where}: is not YAML: {getattr(error, 'problem', None) or repr(error)}") from error
    if twice:
        raise ConfigError(*(f"{name}:{problem}" for problem in twice))
    return Document(data, name, lines)


def _note_lines(node: yaml.Node, path: Path, lines: dict[Path, int], twice: list[str], seen: set[int]) -> None:
    if id(node) in seen:  # an alias: told where it was defined
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, str(key.value))
            line = key.start_mark.line + 1
            if here in lines and key.value != "<<":
                twice.append(f"{line}: {dotted(here)} is given twice, first in line {lines[here]}")
            lines.setdefault(here, line)
            _note_lines(value, here, lines, twice, seen)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            lines[(*path, number)] = value.start_mark.line + 1
            _note_lines(value, (*path, number), lines, twice, seen)
