"""How an agent asks an engine for a reply: SGLang's own ``/generate``, vLLM's completions, or the emulator's core.

Prompts are token ids and replies have a length that was fixed beforehand, so the work is the same in every run and on
every engine. What goes into the next prompt are the ids that the engine gave, so that a conversation finds its own KV.
"""

from __future__ import annotations

import abc
import asyncio
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from openai import DEFAULT_CONNECTION_LIMITS, AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError

from concur_agents import TokenUsage
from concur_agents.emulator import FinishReason, QueueFullError, Request, TooLongError
from concur_agents.emulator.core import EngineCore
from concur_agents.emulator.driver import Driver

__all__ = ["Client", "ClientError", "EmulatorClient", "Reply", "SGLangClient", "VLLMClient"]

REQUEST_TIMEOUT_S = 900.0
"""Wall seconds. Uncontrolled agents may wait long inside the engine; only a hung engine takes this long."""

IDLE_S = 2.0
"""A connection that was idle for so long is not used again. Servers close theirs after 5 s, and clients do the same
by default: then a request can meet a connection that is just being closed, and its agent is lost. One of 72 runs lost
an agent to a connection error, most likely this one."""


class ClientError(Exception):
    """The engine did not answer as asked; the agent is lost."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One generation."""

    usage: TokenUsage
    ids: Sequence[int]
    """What was generated."""


class Client(Protocol):
    """One engine, for all agents of a batch."""

    async def generate(self, name: str, prompt: Sequence[int], planned: Sequence[int]) -> Reply:
        """Continue a prompt by exactly as many tokens as ``planned``, which an emulator also says.

        Raises:
            ClientError: it refuses, fails, or gives another length.
        """
        ...

    async def update_weights(self, seconds: float) -> None:
        """Stand still for so long between two waves; the cache is empty afterwards."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class _OverHttp(abc.ABC):
    """What both servers' clients share: the client of the ``openai`` package, without retries."""

    def __init__(self, url: str, model: str, flush: Callable[[], Awaitable[None]]) -> None:
        limits = type(DEFAULT_CONNECTION_LIMITS)(
            max_connections=None, max_keepalive_connections=None, keepalive_expiry=IDLE_S
        )
        self._client = AsyncOpenAI(
            base_url=url,
            api_key="none",
            max_retries=0,
            timeout=REQUEST_TIMEOUT_S,
            http_client=DefaultAsyncHttpxClient(limits=limits),
        )
        self._model = model
        self._flush = flush

    async def generate(self, name: str, prompt: Sequence[int], planned: Sequence[int]) -> Reply:
        """See :class:`Client`."""
        try:
            usage, ids = await self._ask(name, prompt, len(planned))
        except OpenAIError as error:
            raise ClientError(f"{type(error).__name__}: {error}") from error
        except (LookupError, TypeError, AttributeError) as error:
            raise ClientError(f"an answer without token ids or usage: {error!r}") from error
        if len(ids) != len(planned):
            raise ClientError(f"{len(ids)} tokens came instead of {len(planned)}")
        return Reply(usage, ids)

    async def update_weights(self, seconds: float) -> None:
        """See :class:`Client`."""
        await asyncio.sleep(seconds)
        await self._flush()

    async def close(self) -> None:
        """See :class:`Client`."""
        await self._client.close()

    @abc.abstractmethod
    async def _ask(self, name: str, prompt: Sequence[int], length: int) -> tuple[TokenUsage, list[int]]:
        """The engine's own request: usage, and the ids that came."""


def _no_headers(name: str) -> Mapping[str, str]:  # noqa: ARG001 - as clients that say nothing
    return {}


class SGLangClient(_OverHttp):
    """``POST /generate``.

    Args:
        url: of the server, or of what stands before it.
        model: its name.
        flush: empties its cache.
        headers: of the request of that name: where something before the server reads them.
    """

    def __init__(
        self,
        url: str,
        model: str,
        flush: Callable[[], Awaitable[None]],
        headers: Callable[[str], Mapping[str, str]] = _no_headers,
    ) -> None:
        super().__init__(url, model, flush)
        self._headers = headers

    async def _ask(self, name: str, prompt: Sequence[int], length: int) -> tuple[TokenUsage, list[int]]:
        body = {
            "input_ids": list(prompt),
            "rid": name,
            "sampling_params": {"max_new_tokens": length, "ignore_eos": True, "temperature": 0},
        }
        answer: Any = await self._client.post(
            "/generate", cast_to=object, body=body, options={"headers": dict(self._headers(name))}
        )
        return TokenUsage.of(answer["meta_info"]), list(answer["output_ids"])


class VLLMClient(_OverHttp):
    """``POST /v1/completions`` with a prompt of token ids; ids come back since vLLM 0.10.2."""

    async def _ask(self, name: str, prompt: Sequence[int], length: int) -> tuple[TokenUsage, list[int]]:
        body: Mapping[str, Any] = {
            "model": self._model,
            "prompt": list(prompt),
            "max_tokens": length,
            "min_tokens": length,
            "ignore_eos": True,
            "temperature": 0,
            "return_token_ids": True,
            "request_id": name,
        }
        answer: Any = await self._client.post("/v1/completions", cast_to=object, body=body)
        return TokenUsage.of(answer["usage"]), list(answer["choices"][0]["token_ids"])


class EmulatorClient:
    """The emulator's core on the lab's loop. Replies are as planned.

    Args:
        scheduler: the engine.
        until_next: the loop's, see :class:`~concur_agents.emulator.driver.Driver`.
    """

    def __init__(self, scheduler: EngineCore, until_next: Callable[[], float]) -> None:
        self._scheduler = scheduler
        self._driver = Driver(scheduler, until_next=until_next)

    async def generate(self, name: str, prompt: Sequence[int], planned: Sequence[int]) -> Reply:
        """See :class:`Client`."""
        request = Request(
            name,
            array("I", prompt).tobytes(),
            array("I", planned).tobytes(),
            max_new_tokens=len(planned),
            stops=False,
            ignore_eos=True,  # as the servers are told: admission then knows the whole length
        )
        try:
            await self._driver.submit(request).done.wait()
        except (TooLongError, QueueFullError) as error:
            raise ClientError(str(error)) from error
        if request.finish_reason is not FinishReason.LENGTH or request.out != len(planned):
            raise ClientError(f"{request.out} tokens came instead of {len(planned)} ({request.finish_reason})")
        usage = TokenUsage(prompt=len(prompt), cached=request.cached_tokens, output=request.out)
        return Reply(usage, planned)

    async def update_weights(self, seconds: float) -> None:
        """See :class:`Client`."""
        self._driver.pause()
        await asyncio.sleep(seconds)
        self._scheduler.flush()
        self._driver.resume()

    async def close(self) -> None:
        """See :class:`Client`."""
        await self._driver.close()
