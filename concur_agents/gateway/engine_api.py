"""The part of the gateway's own API that is about engines."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from concur_agents.gateway.engines import EngineRefusedError, Engines
from concur_agents.gateway.upstream import Upstream

__all__ = ["engine_routes", "list_engines", "refused"]

_BODY = 16_384
"""Bytes of a request, at most."""


def engine_routes(engines: Engines) -> list[Route]:
    """Listing them, and having them join and leave."""

    async def all_of_them(request: Request) -> Response:
        if request.method == "GET":
            return JSONResponse({"engines": list_engines(engines)})
        joined = await engines.join(await _url(request))
        return JSONResponse({"joined": joined}, 201 if joined else 200)

    async def drain(request: Request) -> Response:
        return JSONResponse({"agents": engines.drain(request.path_params["name"])}, 202)

    return [
        Route("/concur/v1/engines", all_of_them, methods=["GET", "POST"]),
        Route("/concur/v1/engines/{name:path}", drain, methods=["DELETE"]),
    ]


def list_engines(engines: Engines) -> list[dict[str, Any]]:
    """What each is doing."""
    return [_engine(upstream, draining=engines.fleet.draining(upstream.name)) for upstream in engines]


async def refused(_: Request, refused: Exception) -> Response:
    """Answer an :class:`EngineRefusedError`."""
    assert isinstance(refused, EngineRefusedError)  # noqa: S101 - registered for nothing else
    return JSONResponse({"error": {"message": str(refused)}}, refused.status)


async def _url(request: Request) -> str:
    # A browser asks before it sends JSON elsewhere, so that no page can make us take an engine.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, 'the body must be JSON like {"url": "http://10.0.0.7:30000"}, and say so')
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _BODY:
            raise HTTPException(413, f"the body has more than {_BODY} bytes")
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    url = said.get("url") if isinstance(said, dict) and said.keys() == {"url"} else None
    if not isinstance(url, str):
        raise HTTPException(422, 'the body must be JSON like {"url": "http://10.0.0.7:30000"}')
    return url


def _engine(upstream: Upstream, *, draining: bool) -> dict[str, Any]:
    stats = upstream.controller.stats()
    population, sample = stats.population, stats.sample
    return {
        "name": upstream.name,
        "url": upstream.url,
        "rank": upstream.rank,
        "kind": None if sample is None else sample.engine,
        "up": not upstream.down,
        "draining": draining,
        "agents": upstream.agents,
        "requests": upstream.requests,
        "capacity_tokens": None if sample is None else sample.capacity_tokens,
        "window": _number(stats.window),
        "reason": stats.reason.value,
        "problem": stats.problem,
        "token_budget": _number(population.tokens),
        "held_tokens": round(population.held),
        "generating": population.generating,
        "in_tool": population.in_tool,
        "parked": population.parked,
        "waiting": population.waiting,
        "finished": {outcome.value: count for outcome, count in stats.finished.items()},
        "prompt_tokens": stats.prompt_tokens,
        "cached_tokens": stats.cached_tokens,
        "output_tokens": stats.output_tokens,
        "recomputed_tokens": stats.recomputed_tokens,
    }


def _number(value: float) -> float | None:
    """JSON has no infinity: None is no limit."""
    return value if math.isfinite(value) else None
