"""Which controller admits the rollouts of a worker process."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any

from concur_agents import BaseController, ConfigError, shared_controller
from concur_agents.config import load_config
from concur_agents.config.models import EngineConfig

__all__ = ["controller_of"]

_log = logging.getLogger("concur_agents_verl")


async def controller_of(
    settings: BaseController | Mapping[str, Any] | None, client: Any, engine: str
) -> BaseController | None:
    """The one given, else this process's own for the settings.

    Where these name no engine, it is one that ``client`` sends to: verl starts its engines itself, on addresses that
    nobody knows before, and its load balancer tells them.

    Args:
        settings: a controller, or a configuration as for ``Controller.from_config``.
        client: the loop's LLM client.
        engine: ``rollout.name`` in verl's configuration.

    Returns:
        None while verl has no engine, as between two of them: there is nothing to control then.

    Raises:
        ConfigError: lists every problem.
    """
    if isinstance(settings, BaseController):
        return settings
    config = load_config(settings, engine=False).config
    if not config.engines:
        address = await _address(client)
        if address is None:
            return None
        if engine not in ("sglang", "vllm"):
            raise ConfigError(f"rollout.name must be sglang or vllm for Concur to read the engine, got {engine!r}")
        found: dict[str, Any] = {"url": f"http://{address}", "kind": engine}
        config = config.model_copy(update={"engines": (EngineConfig(**found),)})
    return shared_controller(config)


async def _address(client: Any) -> str | None:
    balancer = getattr(client, "_load_balancer", None)
    if balancer is None:
        raise ConfigError("this LLM client has no load balancer that tells the engine's address: set CONCUR_ENGINE_URL")
    servers: list[str] = await balancer.get_all_servers.remote()
    address = min(servers, default=None)  # the same one each time
    if len(servers) > 1:
        _say_one_of_many(address)
    return address


@functools.cache
def _say_one_of_many(address: str) -> None:
    """Once."""
    # The balancer gives each new rollout to the least busy engine, so they are loaded alike.
    _log.warning("verl has several engines; Concur reads one of them for all: %s", address)
