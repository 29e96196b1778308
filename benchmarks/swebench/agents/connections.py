"""The HTTP client below every framework's model client."""

from __future__ import annotations

from openai import DEFAULT_CONNECTION_LIMITS, DefaultAsyncHttpxClient

__all__ = ["IDLE_S", "open_http"]

IDLE_S = 2.0
"""Seconds after which an idle connection is not used again. Servers close theirs after 5 s, and so does a client by
default: then a request may go out on a connection that is just being closed, and without retries its agent is lost."""


def open_http() -> DefaultAsyncHttpxClient:
    """A client with as many connections as there are requests. Whoever opens it closes it."""
    limits = type(DEFAULT_CONNECTION_LIMITS)(
        max_connections=None, max_keepalive_connections=None, keepalive_expiry=IDLE_S
    )
    return DefaultAsyncHttpxClient(limits=limits)
