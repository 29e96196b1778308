"""The way in. pydantic and PyYAML, the extra ``concur-agents[config]``, are loaded by the first call, not at import."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concur_agents.config.load import Loaded
    from concur_agents.config.models import Config

__all__ = ["json_schema", "load_config"]

_EXTRA = frozenset({"pydantic", "pydantic_core", "yaml"})


def load_config(
    source: str | Path | Mapping[str, Any] | Config | None = None,
    *,
    env: Mapping[str, str] | None = None,
    engine: bool = True,
) -> Loaded:
    """Read a configuration, let the environment override it, and check all of it.

    Args:
        source: a file (``.yaml``, ``.yml`` or ``.toml``), or what such a file holds; a top-level ``concur`` block is
            taken for all of it. None: the file that ``CONCUR_CONFIG`` names, or none. A ``Config`` is taken as it is.
        env: the environment; ``os.environ`` by default.
        engine: whether an engine must be known.

    Raises:
        ConfigError: lists every problem.
        ImportError: the extra ``concur-agents[config]`` is not installed.
    """
    try:
        from concur_agents.config.load import load
    except ImportError as missing:
        raise _explained(missing) from missing
    return load(source, env=env, engine=engine)


def json_schema() -> dict[str, Any]:
    """The schema as JSON schema (draft 2020-12), with descriptions, ranges and defaults.

    Raises:
        ImportError: the extra ``concur-agents[config]`` is not installed.
    """
    try:
        from concur_agents.config.schema import make_schema
    except ImportError as missing:
        raise _explained(missing) from missing
    return make_schema()


def _explained(missing: ImportError) -> ImportError:
    package = (missing.name or "").partition(".")[0]
    if package not in _EXTRA:
        return missing
    return ImportError(f"configuration needs {package}: pip install 'concur-agents[config]'", name=missing.name)
