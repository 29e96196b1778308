"""An engine's reply on its way to the client."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus

import aiohttp
import anyio.lowlevel

from concur_agents.gateway.exchange import Exchange, Refusal
from concur_agents.gateway.replies import ReplyWatch

__all__ = ["relay"]

_log = logging.getLogger("concur_agents.gateway")

# Of an engine's error that is told inside a stream.
_LONGEST_ERROR = 65_536


async def relay(
    exchange: Exchange,
    response: aiohttp.ClientResponse,
    watch: ReplyWatch | None = None,
    over: Callable[[], None] = lambda: None,
) -> None:
    """Pass the engine's reply on as it comes. ``over`` is called before the client can know that all of it is there.

    Raises:
        Refusal: the engine's error, for a stream that has begun.
    """
    try:
        if exchange.begun and exchange.streams and response.status >= HTTPStatus.BAD_REQUEST:
            # It has to be an event: readers of a stream pass over all else, and would take it for empty.
            raise Refusal(response.status, await _text(response), "server_error")
        if not exchange.begun:
            await exchange.begin(response.status, response.raw_headers)
        left = int(response.headers.get("content-length", -1))
        async for chunk in response.content.iter_any():
            # A task that finds more to read each time it is looked at is never seen to wait, and so not cancelled.
            await anyio.lowlevel.checkpoint_if_cancelled()
            left -= len(chunk)
            if watch is not None:
                watch.feed(chunk)
                if left == 0 or watch.ended:
                    over()
            await exchange.more(chunk)
        over()
        await exchange.end()
    except (aiohttp.ClientError, ConnectionError) as error:
        # What was sent cannot be taken back. The connection is cut, so that the client knows that more was to come.
        _log.warning("an engine broke off in the middle of its reply: %s: %s", type(error).__name__, error)
        exchange.cut()
    finally:
        response.close()  # a whole one is given back to the pool before


async def _text(response: aiohttp.ClientResponse) -> str:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _LONGEST_ERROR:
            break
    return body[:_LONGEST_ERROR].decode(errors="replace")
