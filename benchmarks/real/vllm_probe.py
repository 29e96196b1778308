"""Times of single passes of a vLLM server, in the form in which SGLang's ``/generate`` tells its own.

vLLM's replies do not say how long a pass took, so the clock here does: HTTP and this program, some milliseconds, are in
these times.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from openai import AsyncOpenAI, OpenAIError

from benchmarks.engines.engine import Engine
from benchmarks.engines.wire import EngineError
from concur_agents import TokenUsage

__all__ = ["VLLMProbe"]

TIMEOUT_S = 120.0


class VLLMProbe:
    """A vLLM server as :func:`benchmarks.real.calibrate.sweep` sees it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.scheduling = engine.scheduling

    async def flush(self) -> None:
        """Empty the prefix cache. Raises EngineError."""
        await self._engine.flush()

    async def generate(self, body: Mapping[str, Any]) -> Any:
        """One answer a prompt, all asked at once. Raises EngineError."""
        self._engine.check()
        length = body["sampling_params"]["max_new_tokens"]
        url = f"{self._engine.url}/v1"
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=TIMEOUT_S) as client:
            try:
                return await asyncio.gather(*(self._one(client, prompt, length) for prompt in body["input_ids"]))
            except OpenAIError as error:
                raise EngineError(f"{url} does not answer: {error}") from None

    async def _one(self, client: AsyncOpenAI, prompt: Sequence[int], length: int) -> Mapping[str, Any]:
        start = time.monotonic()
        first: float | None = None
        usage = TokenUsage()
        stream = await client.completions.create(
            model=self._engine.model,
            prompt=list(prompt),
            max_tokens=length,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True, "min_tokens": length},
        )
        async for chunk in stream:
            if first is None and chunk.choices:
                first = time.monotonic() - start
            if chunk.usage is not None:
                usage = TokenUsage.of(chunk.usage)
        return {
            "meta_info": {
                "prompt_tokens": usage.prompt,
                "cached_tokens": usage.cached or 0,
                "completion_tokens": usage.output,
                "first_token_latency": first,
                "e2e_latency": time.monotonic() - start,
                "queue_time": 0.0,
            }
        }
