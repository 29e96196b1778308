"""The ASGI application: routes to handlers, and errors in SGLang's shape."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from concur_agents.emulator import control
from concur_agents.emulator.chat import chat_completions
from concur_agents.emulator.completions import completions
from concur_agents.emulator.generate import generate
from concur_agents.emulator.messages import count_tokens, create_message
from concur_agents.emulator.metrics import MetricsPage
from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.responses import create_response, no_store
from concur_agents.emulator.service import Service, ServiceConfig
from concur_agents.emulator.tokenizer import Tokenizer
from concur_agents.emulator.wire import Json, error

__all__ = ["create_app"]


def create_app(config: ServiceConfig | None = None, tokenizer: Tokenizer | None = None) -> Starlette:
    """An emulated server as an ASGI application, for uvicorn or an in-process transport.

    It belongs to the event loop of its first request. ``app.state.service`` is the engine behind it.
    """
    service = Service(config or ServiceConfig(), tokenizer)
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", chat_completions, methods=["POST"]),
            Route("/v1/completions", completions, methods=["POST"]),
            Route("/v1/messages", create_message, methods=["POST"]),
            Route("/v1/messages/count_tokens", count_tokens, methods=["POST"]),
            Route("/v1/responses", create_response, methods=["POST"]),
            Route("/v1/responses/{response_id}", no_store),
            Route("/v1/responses/{response_id}/cancel", no_store, methods=["POST"]),
            Route("/generate", generate, methods=["POST", "PUT"]),
            Route("/v1/models", control.models),
            Route("/metrics", control.metrics),
            Route("/metrics/", control.metrics),
            Route("/health", control.health),
            Route("/health_generate", control.health),
            Route("/server_info", control.server_info),
            Route("/get_server_info", control.server_info),
            Route("/v1/loads", control.loads),
            Route("/flush_cache", control.flush_cache, methods=["GET", "POST"]),
            Route("/abort_request", control.abort_request, methods=["POST"]),
            Route("/pause_generation", control.pause_generation, methods=["POST"]),
            Route("/continue_generation", control.continue_generation, methods=["POST"]),
            Route("/emulator/scripts", control.post_script, methods=["POST"]),
            Route("/emulator/scripts/{session_id:path}", control.delete_script, methods=["DELETE"]),
        ],
        exception_handlers={BadRequestError: _bad_request, HTTPException: _http_error},
    )
    app.state.service = service
    app.state.metrics = MetricsPage(service.scheduler, service.config.model)
    return app


async def _bad_request(request: Request, problem: Exception) -> Response:  # noqa: ARG001, the handler's signature
    if not isinstance(problem, BadRequestError):  # registered for nothing else
        raise problem
    return error(problem)


async def _http_error(request: Request, problem: Exception) -> Response:  # noqa: ARG001, the handler's signature
    if not isinstance(problem, HTTPException):  # registered for nothing else
        raise problem
    return Json({"detail": problem.detail}, status_code=problem.status_code, headers=problem.headers)
