"""The own API's description, as OpenAPI 3.1. What else a gateway answers is the engine's."""

from __future__ import annotations

from typing import Any, Final

from concur_agents.samples import AgentState, Outcome

__all__ = ["OPENAPI"]


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties, "additionalProperties": False}


def _json(schema: dict[str, Any], what: str) -> dict[str, Any]:
    return {"description": what, "content": {"application/json": {"schema": schema}}}


_COUNT: Final = {"type": "integer", "minimum": 0}
_TOKENS: Final = {"type": ["integer", "null"], "minimum": 0}
_TEXT: Final = {"type": "string"}
_SECONDS: Final = {"type": "number", "minimum": 0}
_LIMIT: Final = {"type": ["number", "null"], "description": "null is no limit"}

_AGENT: Final = _object(
    agent_id=_TEXT,
    parent={"type": ["string", "null"]},
    engine=_TEXT,
    state={"enum": [*(state.value for state in AgentState), "unknown"]},
    requests=_COUNT,
    steps=_COUNT,
    context_tokens=_TOKENS,
    waited_s=_SECONDS,
    matched={"type": "boolean", "description": "found by its conversation, since no request names it"},
)
_ENGINE: Final = _object(
    name={"type": "string", "description": "the address, and the rank if it is one of several"},
    url=_TEXT,
    rank={"type": ["integer", "null"], "minimum": 0, "description": "the data-parallel rank that this is"},
    kind={"type": ["string", "null"], "description": "as its metrics say; null while nothing is known"},
    up={"type": "boolean"},
    draining={"type": "boolean", "description": "it takes no new agents, and goes when its last one has"},
    agents=_COUNT,
    requests=_COUNT,
    capacity_tokens=_TOKENS,
    window=_LIMIT,
    reason=_TEXT,
    problem={"type": ["string", "null"]},
    token_budget=_LIMIT,
    held_tokens=_COUNT,
    generating=_COUNT,
    in_tool=_COUNT,
    parked=_COUNT,
    waiting=_COUNT,
    finished={"type": "object", "additionalProperties": _COUNT},
    prompt_tokens=_COUNT,
    cached_tokens=_TOKENS,
    output_tokens=_COUNT,
    recomputed_tokens=_TOKENS,
)
_ENGINES: Final = {"type": "array", "items": _ENGINE}
_ERROR: Final = _json(_object(error=_object(message=_TEXT)), "What is wrong with the request")
_JOINED: Final = _object(joined={"type": "boolean"})
_ID: Final = {
    "name": "agent_id",
    "in": "path",
    "required": True,
    "description": "as the agent's requests name it; percent-encoded",
    "schema": {"type": "string", "minLength": 1},
}

OPENAPI: Final[dict[str, Any]] = {
    "openapi": "3.1.0",
    "info": {
        "title": "Concur gateway",
        "version": "1",
        "description": "Who is there, what the gateway does, and who has ended. Every other path is the engine's own.",
    },
    "paths": {
        "/concur/v1/agents": {
            "get": {
                "summary": "Agents that have begun and not ended",
                "parameters": [
                    {
                        "name": "limit",
                        "in": "query",
                        "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 1000},
                    },
                    {
                        "name": "offset",
                        "in": "query",
                        "schema": {"type": "integer", "minimum": 0, "maximum": 1_000_000_000, "default": 0},
                    },
                ],
                "responses": {
                    "200": _json(_object(total=_COUNT, agents={"type": "array", "items": _AGENT}), "A page of them"),
                    "422": _ERROR,
                },
            }
        },
        "/concur/v1/agents/{agent_id}": {
            "parameters": [_ID],
            "get": {
                "summary": "One agent",
                "responses": {"200": _json(_AGENT, "The agent"), "404": _ERROR},
            },
            "delete": {
                "summary": "The agent has ended, and its sub-agents with it. Idempotent",
                "parameters": [
                    {
                        "name": "outcome",
                        "in": "query",
                        "schema": {"enum": [outcome.value for outcome in Outcome], "default": "completed"},
                    }
                ],
                "responses": {
                    "200": _json(_object(finished={"type": "boolean"}), "Whether it was known until now"),
                    "422": _ERROR,
                },
            },
        },
        "/concur/v1/engines": {
            "get": {
                "summary": "The engines there are now",
                "responses": {"200": _json(_object(engines=_ENGINES), "All of them")},
            },
            "post": {
                "summary": "An engine joins, if it is one of those that may (--allow-engines). Idempotent",
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": _object(url=_TEXT)}},
                },
                "responses": {
                    "200": _json(_JOINED, "It was there before"),
                    "201": _json(_JOINED, "It takes agents from now on"),
                    "403": _ERROR,
                    "409": _ERROR,
                    "413": _ERROR,
                    "415": _ERROR,
                    "422": _ERROR,
                },
            },
        },
        "/concur/v1/engines/{name}": {
            "parameters": [
                {
                    "name": "name",
                    "in": "path",
                    "required": True,
                    "description": "its name, or an address of which all ranks are meant; percent-encoded",
                    "schema": {"type": "string", "minLength": 1},
                }
            ],
            "delete": {
                "summary": "The engine is drained: no new agents, and it goes when its last one has. Idempotent",
                "responses": {
                    "202": _json(_object(agents=_COUNT), "How many agents it still has"),
                    "403": _ERROR,
                    "404": _ERROR,
                    "409": _ERROR,
                },
            },
        },
        "/concur/v1/status": {
            "get": {
                "summary": "This moment",
                "responses": {
                    "200": _json(
                        _object(
                            agents=_COUNT,
                            expired=_COUNT,
                            requests=_COUNT,
                            held_bytes=_COUNT,
                            engines=_ENGINES,
                        ),
                        "Of the gateway and of each engine",
                    )
                },
            }
        },
        "/concur/v1/openapi.json": {
            "get": {"summary": "This description", "responses": {"200": _json({"type": "object"}, "OpenAPI 3.1")}}
        },
    },
}
