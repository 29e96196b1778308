"""``/generate``, SGLang's own endpoint: text or token ids, one or many."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.radix import TOKEN_BYTES, pack, unpack
from concur_agents.emulator.request import FinishReason
from concur_agents.emulator.service import Answer, Service
from concur_agents.emulator.turns import wait_for
from concur_agents.emulator.wire import EventStream, Json, body_of

__all__ = ["generate"]

DEFAULT_NEW_TOKENS = 128  # SGLang's SamplingParams


async def generate(request: Request) -> Response:
    """Continue a prompt, or a list of prompts.

    ``sampling_params.custom_params.output_ids`` (a field the real server passes over) says what to generate; so a
    recorded run can be repeated token by token.
    """
    service: Service = request.app.state.service
    body = await body_of(request)
    try:
        prompts, single = _prompts(service, body)
        answers = _start(service, body, prompts)
    except BadRequestError as problem:
        if problem.kind != "BadRequestError":
            raise
        return Json({"error": {"message": str(problem)}}, status_code=problem.status)
    received = time.time()
    if body.get("stream"):
        if not single:
            for answer in answers:
                service.release(answer)
            raise BadRequestError("stream: only single prompts are streamed here", kind="Bad Request")
        return EventStream(_events(service, answers[0], received), lambda: service.release(answers[0]))
    await wait_for(request, service, *answers)
    results = [_result(service, answer, answer.request.out, received) for answer in answers]
    return Json(results[0] if single else results)


def _prompts(service: Service, body: Mapping[str, Any]) -> tuple[list[bytes], bool]:
    text, ids = body.get("text"), body.get("input_ids")
    if ids is not None:  # SGLang lets the ids win where both are given
        if not isinstance(ids, list):
            raise BadRequestError("input_ids: Input should be a valid list", kind="Bad Request")
        if not ids:
            raise BadRequestError("input_ids cannot be empty.")
        many = isinstance(ids[0], list)
        return [_pack(one) for one in (ids if many else [ids])], not many
    if isinstance(text, str) and text:
        return [service.tokenizer.encode(text)], True
    if isinstance(text, list) and text and all(isinstance(one, str) and one for one in text):
        return [service.tokenizer.encode(one) for one in text], False
    raise BadRequestError("Either text, input_ids or input_embeds should be provided.")


def _pack(ids: object) -> bytes:
    if not isinstance(ids, list) or not ids:
        raise BadRequestError("input_ids cannot be empty.")
    try:
        return pack(ids)
    except (TypeError, OverflowError) as problem:
        raise BadRequestError(f"input_ids: {problem}", kind="Bad Request") from problem


def _start(service: Service, body: Mapping[str, Any], prompts: list[bytes]) -> list[Answer]:
    params = body.get("sampling_params")
    rids = body.get("rid")
    per_prompt = params if isinstance(params, list) else [params] * len(prompts)
    names = rids if isinstance(rids, list) else [rids] + [None] * (len(prompts) - 1)
    if len(per_prompt) != len(prompts) or len(names) != len(prompts):
        raise BadRequestError("sampling_params and rid must be one for all prompts, or one for each")
    answers: list[Answer] = []
    try:
        for prompt, param, rid in zip(prompts, per_prompt, names, strict=True):
            answers.append(_start_one(service, prompt, param, rid, streaming=bool(body.get("stream"))))
    except BadRequestError:
        for answer in answers:
            service.release(answer)
        raise
    return answers


def _start_one(service: Service, prompt: bytes, params: object, rid: object, *, streaming: bool) -> Answer:
    if params is None:
        params = {}
    if not isinstance(params, Mapping):
        raise BadRequestError("sampling_params: Input should be a valid dictionary", kind="Bad Request")
    if not isinstance(rid, (str, type(None))):
        raise BadRequestError("rid: Input should be a valid string", kind="Bad Request")
    count = params.get("max_new_tokens", DEFAULT_NEW_TOKENS)
    if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
        raise BadRequestError(f"max_new_tokens must be an integer, got {count!r:.80}")
    custom = params.get("custom_params")
    wanted = custom.get("output_ids") if isinstance(custom, Mapping) else None
    return service.start(
        prompt,
        max_tokens=count,
        rid=rid,
        ignore_eos=bool(params.get("ignore_eos")),
        streaming=streaming,
        output=_pack(wanted) if wanted else None,
    )


def _result(service: Service, answer: Answer, out: int, received: float) -> dict[str, Any]:
    tokens = answer.request.output[: out * TOKEN_BYTES]
    return {
        "text": service.tokenizer.decode(tokens),
        "output_ids": unpack(tokens),
        "meta_info": _meta(answer, out, received),
    }


def _meta(answer: Answer, out: int, received: float) -> dict[str, Any]:
    request = answer.request
    meta: dict[str, Any] = {
        "id": request.rid,
        "finish_reason": _finish_reason(answer) if answer.generation.done.is_set() else None,
        "prompt_tokens": request.prompt_tokens,
        "weight_version": "default",
        "num_retractions": request.retractions,
        "queue_time": max(0.0, (request.scheduled_at or request.submitted_at) - request.submitted_at),
        "reasoning_tokens": 0,
        "completion_tokens": out,
        "cached_tokens": request.cached_tokens,
        "cached_tokens_details": {
            "device": request.cached_tokens - request.host_tokens,
            "host": request.host_tokens,
        }
        if request.cached_tokens
        else None,
        "dp_rank": None,
        "request_received_ts": received,
    }
    if request.finished_at is not None and answer.generation.done.is_set():
        meta["e2e_latency"] = request.finished_at - request.submitted_at
        meta["request_finished_ts"] = time.time()
    if request.first_token_at is not None:
        meta["first_token_latency"] = request.first_token_at - request.submitted_at
    return meta


def _finish_reason(answer: Answer) -> dict[str, Any] | None:
    request = answer.request
    match request.finish_reason:
        case None:
            return None
        case FinishReason.LENGTH:
            return {"type": "length", "length": request.max_new_tokens}
        case FinishReason.STOP:
            return {"type": "stop", "matched": unpack(request.output)[-1]}
        case FinishReason.ABORT:
            return {"type": "abort", "message": request.abort_message or "Aborted", "status_code": None}


async def _events(service: Service, answer: Answer, received: float) -> AsyncIterator[dict[str, Any]]:
    async for out in answer.generation.progress():
        if out or answer.generation.done.is_set():
            yield _result(service, answer, out, received)
    service.release(answer)
