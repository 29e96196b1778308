"""The size of an SGLang engine's KV pool, for versions whose /metrics do not say it (before about 0.5.9)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from concur_agents.engines.client import Reply
from concur_agents.errors import EngineReadError

__all__ = ["CapacityProbe", "ServerInfo", "read_server_info"]

_log = logging.getLogger(__name__)

# New name first; 0.5.23 answers under both and calls the second deprecated.
_PATHS = ("/server_info", "/get_server_info")
# The answer comes from the engine's scheduler, which does not answer during a long prefill. So some readings may ask
# in vain, but not all: each such try makes its reading take the whole timeout.
_TRIES = 3


class ServerInfo(NamedTuple):
    """What ``/server_info`` says of the pool."""

    tokens: int | None
    """Of all data-parallel ranks together."""
    ranks: int
    """Data-parallel ranks; 1 where it does not say."""


_NOTHING = ServerInfo(None, 1)


class CapacityProbe:
    """Asks once, remembers the answer, and asks again after ``forget``. Unknown stays None."""

    def __init__(self) -> None:
        self._info = _NOTHING
        self._tries_left = _TRIES

    def forget(self) -> None:
        """Drop the answer: the engine may be another one now."""
        self._info = _NOTHING
        self._tries_left = _TRIES

    def ask(self, get: Callable[[str], Reply]) -> ServerInfo:
        """Return what is known, after asking with ``get`` if need be. Whatever ``get`` meets, this does not raise."""
        if self._tries_left > 0:
            self._tries_left -= 1
            self._try(get)
        return self._info

    def _try(self, get: Callable[[str], Reply]) -> None:
        for path in _PATHS:
            try:
                reply = get(path)
            except EngineReadError as error:
                _log.debug("no answer from %s: %s", path, error)
                return
            if reply.status >= 500:
                return
            if reply.status == 200 and (info := read_server_info(reply.text)).tokens is not None:
                self._info = info
                break
        self._tries_left = 0  # it answered: asking again would bring the same


def read_server_info(text: str) -> ServerInfo:
    """Read the JSON of ``/server_info``; whatever is not there, or is no count, is unknown. Never raises."""
    try:
        info = json.loads(text)
    except (ValueError, RecursionError):
        return _NOTHING
    if not isinstance(info, dict):
        return _NOTHING
    ranks = _count(info.get("dp_size")) or 1
    states = info.get("internal_states")
    per_rank = [_pool(state) for state in states] if isinstance(states, list) else []
    sizes = [size for size in per_rank if size]
    if len(sizes) == ranks:
        return ServerInfo(sum(sizes), ranks)
    # Only one rank speaks here; all ranks have the same pool.
    one = _count(info.get("max_total_num_tokens")) or next(iter(sizes), None)
    return ServerInfo(one * ranks if one else None, ranks)


def _pool(state: Any) -> int | None:
    """Pool of one rank; 0.5.23 has it as ``memory_usage.token_capacity``."""
    if not isinstance(state, Mapping):
        return None
    memory = state.get("memory_usage")
    return _count(state.get("max_total_num_tokens")) or (
        _count(memory.get("token_capacity")) if isinstance(memory, Mapping) else None
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
