"""The gateway's own API, under ``/concur/v1``: who is there, what it does, and who has ended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from concur_agents.gateway.engine_api import engine_routes, list_engines, refused
from concur_agents.gateway.engines import EngineRefusedError
from concur_agents.gateway.openapi import OPENAPI
from concur_agents.gateway.roster import Member
from concur_agents.samples import Outcome

if TYPE_CHECKING:
    from concur_agents.gateway.app import Gateway

__all__ = ["build_api"]

_PAGE = 1000
"""Agents in one listing, at most."""


def build_api(gateway: Gateway) -> Starlette:
    """The application for everything under ``/concur``."""

    async def agents(request: Request) -> Response:
        limit = _count(request, "limit", _PAGE, 1, _PAGE)
        offset = _count(request, "offset", 0, 0, 10**9)
        members = list(gateway.roster)[offset : offset + limit]
        return JSONResponse({"total": len(gateway.roster), "agents": [_agent(member) for member in members]})

    async def agent(request: Request) -> Response:
        member = gateway.roster.get(request.path_params["agent_id"])
        if member is None:
            raise HTTPException(404, f"agent {request.path_params['agent_id']!r:.80} is not known, or has ended")
        return JSONResponse(_agent(member))

    async def finish(request: Request) -> Response:
        outcome = request.query_params.get("outcome", Outcome.COMPLETED.value)
        if outcome not in [each.value for each in Outcome]:
            raise HTTPException(
                422, f"outcome must be one of {', '.join(each.value for each in Outcome)}, got {outcome!r:.80}"
            )
        finished = gateway.roster.finish(request.path_params["agent_id"], Outcome(outcome))
        return JSONResponse({"finished": finished})

    async def status(_: Request) -> Response:
        return JSONResponse(
            {
                "agents": len(gateway.roster),
                "expired": gateway.roster.expired,
                "requests": gateway.requests,
                "held_bytes": gateway.held.bytes,
                "engines": list_engines(gateway.engines),
            }
        )

    async def openapi(_: Request) -> Response:
        return JSONResponse(OPENAPI)

    async def one(request: Request) -> Response:
        return await (finish if request.method == "DELETE" else agent)(request)

    one_route = Route("/concur/v1/agents/{agent_id:path}", one, methods=["GET", "DELETE"])
    one_route.path_regex = re.compile(one_route.path_regex.pattern, re.DOTALL)  # a name may hold a line's end
    return Starlette(
        routes=[
            Route("/concur/v1/agents", agents, methods=["GET"]),
            one_route,
            *engine_routes(gateway.engines),
            Route("/concur/v1/status", status, methods=["GET"]),
            Route("/concur/v1/openapi.json", openapi, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _problem, EngineRefusedError: refused},
    )


async def _problem(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)  # noqa: S101 - registered for nothing else
    return JSONResponse({"error": {"message": problem.detail}}, problem.status_code, headers=problem.headers)


def _count(request: Request, name: str, default: int, least: int, most: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most:
        return int(text)
    raise HTTPException(422, f"{name} must be a whole number from {least} to {most}, got {text!r:.80}")


def _agent(member: Member) -> dict[str, Any]:
    view = member.upstream.controller.view(member.agent_id)
    return {
        "agent_id": member.agent_id,
        "parent": member.parent,
        "engine": member.upstream.name,
        "state": "unknown" if view is None else view.state.value,
        "requests": member.open,
        "steps": 0 if view is None else view.steps,
        "context_tokens": None if view is None else view.context_tokens,
        "waited_s": 0.0 if view is None else round(view.waited_s, 3),
        "matched": member.matched,
    }
