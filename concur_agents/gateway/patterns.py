"""Which engines may join while the gateway runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from urllib3.util import Url

from concur_agents.engines.url import engine_url

__all__ = ["AllowedEngines"]

_PATTERN = re.compile(r"(https?)://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.*-]+)(?::(\d+|\*))?/?")
_PORTS: Final = {"http": 80, "https": 443}


class AllowedEngines:
    """Addresses that match one of some patterns, like ``http://10.0.0.*:30000``.

    A ``*`` stands for some characters within one label of a host's name (it never reaches over a dot), or for any port.
    Without a port only the scheme's own is meant. Addresses with a path are never allowed.

    Args:
        patterns: none allows nothing.

    Raises:
        ValueError: a pattern is none.
    """

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        self._allowed = [_read(pattern) for pattern in patterns]

    def __bool__(self) -> bool:
        return bool(self._allowed)

    def allow(self, url: str) -> bool:
        """Whether the engine may join.

        Raises:
            ValueError: it is no engine's address.
        """
        base: Url = engine_url(url)
        if base.path is not None:
            return False
        host, port = (base.host or "").lower(), base.port or _PORTS[str(base.scheme)]
        return any(
            scheme == base.scheme and name.fullmatch(host) and wanted in (None, port)
            for scheme, name, wanted in self._allowed
        )


def _read(pattern: str) -> tuple[str, re.Pattern[str], int | None]:
    parts = _PATTERN.fullmatch(pattern)
    if parts is None:
        raise ValueError(f"allow must be patterns like 'http://10.0.0.*:30000', got {pattern!r:.80}")
    scheme, host, port = parts[1], parts[2].lower(), parts[3]
    name = re.compile("[^.:]*".join(re.escape(part) for part in host.split("*")))
    return scheme, name, None if port == "*" else int(port or _PORTS[scheme])
