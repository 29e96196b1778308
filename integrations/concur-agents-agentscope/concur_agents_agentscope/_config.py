"""From configuration to a controller."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from concur_agents import BaseController
from concur_agents.shared import shared_controller

__all__ = ["Config", "controller_of"]

Config: TypeAlias = BaseController | Mapping[str, Any] | str | Path | None
"""A controller, or what ``concur_agents.shared_controller`` takes."""


def controller_of(config: Config) -> BaseController:
    """The controller itself, or the process's one for this configuration."""
    return config if isinstance(config, BaseController) else shared_controller(config)
