"""The address of an engine, as users give it."""

from __future__ import annotations

import re

from urllib3.exceptions import LocationParseError
from urllib3.util import Url, parse_url

__all__ = ["engine_url"]

# What people paste: the OpenAI client's base_url ends in /v1, and the browser's address bar in /metrics.
_ENDPOINT = re.compile(r"/+(v1|metrics)?/*$")
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f]")


def engine_url(url: str) -> Url:
    """Return the base of ``url``: scheme, host, port, and the path prefix if there is one.

    ``http://host:30000``, the same with a slash, with ``/v1`` or with ``/metrics`` are one engine.

    Raises:
        ValueError: not an http(s) address, or one that carries a user, a password, a query or a fragment.
    """
    if not isinstance(url, str):
        raise ValueError(f"url must be a string like 'http://127.0.0.1:30000', got {url!r}")
    shown = _shown(url)
    if _UNPRINTABLE.search(url):
        raise ValueError(f"url must not hold spaces or control characters, got {shown!r}")
    try:
        parts = parse_url(url)
    except LocationParseError:
        raise ValueError(f"url is not a web address: {shown!r}") from None  # its text may hold a password
    if parts.scheme not in ("http", "https"):
        missing = url and "//" not in url and "@" not in url
        hint = f" (did you mean 'http://{shown}'?)" if missing else ""
        raise ValueError(f"url must start with http:// or https://, got {shown!r}{hint}")
    if not parts.host:
        raise ValueError(f"url has no host: {shown!r}")
    if parts.auth is not None:
        raise ValueError(f"url must not carry a user or password (a key goes into api_key), got {shown!r}")
    if parts.query is not None or parts.fragment is not None:
        raise ValueError(f"url must not have a query or fragment, got {shown!r}")
    prefix = _ENDPOINT.sub("", parts.path or "")
    return Url(scheme=parts.scheme, host=parts.host, port=parts.port, path=prefix or None)


def _shown(url: str) -> str:
    """Without what may be secret: user, password, query, fragment."""
    return re.sub(r"(^|//)[^/?#]*@", r"\1***@", re.split(r"[?#]", url, maxsplit=1)[0])
