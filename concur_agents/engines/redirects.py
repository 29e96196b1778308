"""Where a redirect may lead: only back to the same server, because the request may carry a key."""

from __future__ import annotations

from urllib.parse import urljoin

from urllib3.exceptions import LocationParseError
from urllib3.util import Url, parse_url

from concur_agents.errors import MetricsError

__all__ = ["is_redirect", "same_server"]

_PORTS = {"http": 80, "https": 443}


def is_redirect(status: int) -> bool:
    """Whether the status asks to GET another address."""
    return status in (301, 302, 303, 307, 308)


def same_server(url: Url, path: str, location: str | None) -> str:
    """Return the path to go to next, on the server of ``url``.

    Raises:
        MetricsError: it is on another server, or nowhere.
    """
    try:
        target = parse_url(urljoin(f"{_origin(url)}{path}", location or ""))
    except (LocationParseError, ValueError):
        target = Url()
    if not target.host or not location:
        raise MetricsError(f"{url}: not metrics but a redirect that leads nowhere")
    if _origin(target) != _origin(url):
        raise MetricsError(f"{url}: redirects to {_origin(target)}; if the engine is there, give that address")
    return target.request_uri


def _origin(url: Url) -> str:
    port = url.port or _PORTS.get(url.scheme or "", 0)
    return f"{url.scheme}://{url.host}:{port}"
