"""``/v1/completions``, whole or as a stream."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from concur_agents.emulator.fields import flag, integer, text
from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.radix import pack
from concur_agents.emulator.service import Service
from concur_agents.emulator.turns import Turn, wait_for
from concur_agents.emulator.wire import EventStream, Json, body_of, usage

__all__ = ["Completion", "completions"]


async def completions(request: Request) -> Response:
    """A continuation of a plain prompt: text or token ids."""
    service: Service = request.app.state.service
    body = await body_of(request, only_json=True)
    if "prompt" not in body:
        raise BadRequestError("prompt: Field required", kind="Bad Request")
    prompt = _prompt(service, body["prompt"])
    max_tokens = integer(body, "max_tokens")
    streaming = flag(body, "stream")
    answer = service.start(
        prompt,
        max_tokens=16 if max_tokens is None else max_tokens,  # OpenAI's default, and SGLang's
        rid=text(body, "rid"),
        ignore_eos=flag(body, "ignore_eos"),
        streaming=streaming,
    )
    talk = Completion(Turn(service, answer), body)
    if streaming:
        return EventStream(talk.events(), talk.turn.release)
    await wait_for(request, service, answer)
    return Json(talk.whole())


class Completion:
    """One answer to ``/v1/completions``."""

    kind = "text_completion"
    chunk_kind = "text_completion"

    def __init__(self, turn: Turn, body: Mapping[str, Any]) -> None:
        self.turn = turn
        self.model = str(body.get("model") or turn.service.config.model)
        options = body.get("stream_options")
        self.with_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
        self.created = int(time.time())

    def whole(self) -> dict[str, Any]:
        """The reply in one piece."""
        content = {"index": 0, **self.content(), "logprobs": None}
        return {
            **self.head(self.kind),
            "choices": [{**content, "finish_reason": self.turn.reason, "matched_stop": None}],
            "usage": self.usage(),
            "metadata": {
                "weight_version": "default",
                "weight_versions": [{"version": "default", "start": 0, "end": self.turn.answer.request.out}],
            },
        }

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """The reply as it comes."""
        shown = ""
        generation = self.turn.answer.generation
        async for out in generation.progress():
            said = self.turn.parts(out)[1]
            done = generation.done.is_set()
            if len(said) > len(shown) or done:
                ended = self.turn.reason if done else None
                yield {**self.chunk({"text": said[len(shown) :]}, ended), "usage": None}
                shown = said
        self.turn.release()
        if self.with_usage:
            # SGLang leaves this null out here, and only here.
            told = {name: value for name, value in self.usage().items() if name != "completion_tokens_details"}
            yield {**self.head(self.chunk_kind), "choices": [], "usage": told}

    def content(self) -> dict[str, Any]:
        """What the choice says."""
        return {"text": self.turn.parts()[1]}

    def head(self, kind: str) -> dict[str, Any]:
        """What every object begins with."""
        return {"id": self.turn.answer.request.rid, "object": kind, "created": self.created, "model": self.model}

    def chunk(self, content: dict[str, Any], ended: str | None) -> dict[str, Any]:
        """One event."""
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": ended, "matched_stop": None}
        return {**self.head(self.chunk_kind), "choices": [choice]}

    def usage(self) -> dict[str, Any]:
        """SGLang's usage object."""
        request = self.turn.answer.request
        cached = request.cached_tokens if self.turn.service.config.enable_cache_report else None
        return usage(self.turn.prompt_tokens, request.out, cached)


def _prompt(service: Service, prompt: object) -> bytes:
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if not prompt:
        raise BadRequestError("Prompt cannot be empty")
    if isinstance(prompt, str):
        return service.tokenizer.encode(prompt)
    if isinstance(prompt, list) and all(isinstance(token, int) and 0 <= token < 1 << 32 for token in prompt):
        return pack(prompt)
    raise BadRequestError("prompt: Input should be a string or a list of token ids", kind="Bad Request")
