"""Everything that is not a generation: health, metrics, flush, abort, pause, models, scripts."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from concur_agents.emulator.hicache import HiCacheConfig
from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.scripts import ScriptedReply
from concur_agents.emulator.service import Service
from concur_agents.emulator.wire import Json, body_of

__all__ = [
    "abort_request",
    "continue_generation",
    "delete_script",
    "flush_cache",
    "health",
    "loads",
    "metrics",
    "models",
    "pause_generation",
    "post_script",
    "server_info",
]

VERSION = "0.5.23"  # of the SGLang whose behaviour this is


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def health(request: Request) -> Response:
    """Alive, once an idle engine has generated a token."""
    await _service(request).probe()
    return Response()


async def metrics(request: Request) -> Response:
    """The Prometheus page; absent (404) when metrics are off."""
    service = _service(request)
    if not service.config.enable_metrics:
        return Json({"detail": "Not Found"}, status_code=404)
    body, content_type = request.app.state.metrics.render(request.headers.get("accept", ""))
    return Response(body, headers={"content-type": content_type})


async def models(request: Request) -> Response:
    """The one model there is."""
    service = _service(request)
    name = service.config.model
    return Json(
        {
            "object": "list",
            "data": [
                {
                    "id": name,
                    "object": "model",
                    "created": service.started_at,
                    "owned_by": "sglang",
                    "root": name,
                    "parent": None,
                    "max_model_len": service.config.engine.context_length,
                }
            ],
        }
    )


def _host_flags(hicache: HiCacheConfig | None) -> dict[str, object]:
    shown = hicache or HiCacheConfig()
    return {
        "enable_hierarchical_cache": hicache is not None,
        "hicache_ratio": shown.ratio,
        "hicache_write_policy": shown.write_policy,
    }


async def server_info(request: Request) -> Response:
    """The fields of SGLang's that say something here, and the emulator's own under ``emulator``."""
    service = _service(request)
    config, engine = service.config, service.config.engine
    return Json(
        {
            "model_path": config.model,
            "served_model_name": config.model,
            "context_length": engine.context_length,
            "max_running_requests": engine.max_running_requests,
            "max_queued_requests": engine.max_queued_requests,
            "max_total_tokens": engine.max_total_tokens,
            "chunked_prefill_size": engine.chunked_prefill_size,
            "max_prefill_tokens": engine.max_prefill_tokens,
            "schedule_policy": "fcfs",
            "schedule_conservativeness": engine.schedule_conservativeness,
            "page_size": engine.page_size,
            "radix_eviction_policy": "lru",
            **_host_flags(engine.hicache),
            "enable_cache_report": config.enable_cache_report,
            "enable_metrics": config.enable_metrics,
            "decode_log_interval": engine.decode_log_interval,
            "random_seed": config.seed,
            "tp_size": 1,
            "dp_size": 1,
            "status": "ready",
            "max_total_num_tokens": engine.max_total_tokens,
            "max_req_input_len": engine.max_prompt_tokens,
            "internal_states": [
                {
                    "effective_max_running_requests_per_dp": engine.max_running_requests,
                    "last_gen_throughput": service.scheduler.stats.gauges.gen_throughput,
                    "memory_usage": {"token_capacity": engine.max_total_tokens},
                }
            ],
            "version": VERSION,
            "emulator": {
                "speedup": config.speedup,
                "engine_s": service.scheduler.clock_s,
                "behind_s": service.driver.behind_s,
                "scripts": len(service.scripts),
            },
        }
    )


async def loads(request: Request) -> Response:
    """``/v1/loads``: what runs and waits, now."""
    scheduler = _service(request).scheduler
    cache, gauges = scheduler.cache, scheduler.stats.gauges
    return Json(
        {
            "version": VERSION,
            "loads": [
                {
                    "dp_rank": 0,
                    "num_running_reqs": len(scheduler.running),
                    "num_waiting_reqs": len(scheduler.waiting),
                    "num_used_tokens": cache.pinned,
                    "max_total_num_tokens": cache.capacity,
                    "max_running_requests": scheduler.config.max_running_requests,
                    "token_usage": round(cache.pinned / cache.capacity, 4),
                    "gen_throughput": round(gauges.gen_throughput, 2),
                    "cache_hit_rate": round(gauges.cache_hit_rate, 4),
                }
            ],
        }
    )


async def flush_cache(request: Request) -> Response:
    """Empty the cache; refused while anything runs or waits."""
    if _service(request).scheduler.flush():
        return PlainTextResponse(
            "Cache flushed.\nPlease check backend logs for more details. "
            "(When there are running or waiting requests, the operation will not be performed.)\n"
        )
    return PlainTextResponse("Flush cache failed.\n", status_code=400)


async def abort_request(request: Request) -> Response:
    """End requests by ``rid``, or with ``abort_all``; unknown names are fine, as on the real server."""
    service = _service(request)
    body = await body_of(request)
    rid, everything = body.get("rid") or "", bool(body.get("abort_all"))
    if not isinstance(rid, str):
        raise BadRequestError("rid: Input should be a valid string", kind="Bad Request")
    # SGLang passes on only names it knows, and then ends every request whose name starts with it.
    if everything or service.driver.knows(rid):
        service.scheduler.stats.aborted_requests += 1
        service.driver.abort(rid, everything=everything)
    return Response()


async def pause_generation(request: Request) -> Response:
    """Stop stepping; ``mode`` abort ends everything first (the default), in_place keeps all as it is."""
    service = _service(request)
    mode = (await body_of(request)).get("mode", "abort")
    if mode not in ("abort", "in_place"):
        raise BadRequestError(f"mode must be abort or in_place here, got {mode!r:.80}", kind="Bad Request")
    if mode == "abort":
        service.driver.abort(everything=True)
    else:
        service.driver.pause()
    return Json({"message": "Generation paused successfully.", "status": "ok"})


async def continue_generation(request: Request) -> Response:
    """Go on after a pause."""
    _service(request).driver.resume()
    return Json({"message": "Generation continued successfully.", "status": "ok"})


async def post_script(request: Request) -> Response:
    """Register a session's replies."""
    body = await body_of(request)
    session_id, replies, match = body.get("session_id"), body.get("replies"), body.get("match")
    if not isinstance(session_id, str) or not session_id:
        raise BadRequestError(f"session_id must be a string, got {session_id!r:.80}")
    if not isinstance(replies, list):
        raise BadRequestError(f"replies must be a list, got {replies!r:.80}")
    if not isinstance(match, str | None) or match == "":
        raise BadRequestError(f"match must be a string that is not empty, or null, got {match!r:.80}")
    try:
        parsed = [ScriptedReply.parse(reply, f"replies[{i}]") for i, reply in enumerate(replies)]
        _service(request).scripts.register(session_id, parsed, match)
    except ValueError as problem:
        raise BadRequestError(str(problem)) from problem
    result: dict[str, Any] = {"session_id": session_id, "replies": len(parsed)}
    return Json(result)


async def delete_script(request: Request) -> Response:
    """Forget a session's replies."""
    session_id = request.path_params["session_id"]
    if not _service(request).scripts.remove(session_id):
        return Json({"detail": f"no script for session {session_id}"}, status_code=404)
    return Json({"session_id": session_id, "replies": 0})
