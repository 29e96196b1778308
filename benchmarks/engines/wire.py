"""Plain HTTP calls to an engine, for everything that is not a chat."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import urllib3

__all__ = ["EngineError", "call", "fetch"]


class EngineError(Exception):
    """The engine cannot be installed, started, reached or prepared. The message says what to do."""


def call(
    method: str,
    url: str,
    body: object = None,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
) -> tuple[int, str]:
    """Status and text of one request, ``headers`` going over our own. Blocks.

    Raises:
        EngineError: nobody answers within ``timeout_s``.
    """
    data = None if body is None else json.dumps(body).encode()
    sent = {} if data is None else {"Content-Type": "application/json"}
    if key := os.environ.get("OPENAI_API_KEY"):  # where agents look for theirs
        sent["Authorization"] = f"Bearer {key}"
    sent.update(headers or {})
    try:
        reply = urllib3.request(method, url, body=data, headers=sent, timeout=timeout_s, retries=False)
    except urllib3.exceptions.HTTPError as error:
        raise EngineError(f"no engine answers at {url}: {error}. Is it running, and is the URL right?") from None
    return reply.status, reply.data.decode(errors="replace")


def fetch(method: str, url: str, body: object = None, *, timeout_s: float = 30.0) -> Any:
    """The JSON that a request is answered with. Blocks.

    Raises:
        EngineError: no answer, a status other than 200, or no JSON.
    """
    status, text = call(method, url, body, timeout_s=timeout_s)
    if status != 200:
        raise EngineError(f"{url} answered {status}: {text[:300]}")
    try:
        return json.loads(text)
    except ValueError:
        raise EngineError(f"{url} answered no JSON: {text[:300]}") from None
