"""Where the tokens come from: SGLang's own ``/generate``, or a proxy before it that takes completions of token ids."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp

from concur_agents.emulator.problems import BadRequestError
from concur_agents.usage import TokenUsage

__all__ = ["Part", "Source", "client"]

IDLE_S = 2.0
"""A connection that was idle for so long is not used again: uvicorn drops it after 5 s."""
CONNECT_S = 10.0


@dataclass(frozen=True, slots=True)
class Part:
    """As far as a generation is."""

    usage: TokenUsage
    ids: Sequence[int]
    """Generated; empty where they do not come this way."""
    reason: str | None
    """Why it has ended; None while it goes on."""


def client() -> aiohttp.ClientSession:
    """With as many connections as there are requests, and all the time that they take."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        auto_decompress=False,  # what is passed on is passed on as it came ...
        skip_auto_headers=("Accept-Encoding",),  # ... and what is read here comes as it is
        trust_env=False,
    )


class Source:
    """To be opened in the event loop that uses it.

    Args:
        url: of the engine.
        through: of a proxy that takes ``/v1/completions`` of token ids, and sends them to the engine its own way.
    """

    def __init__(self, url: str, through: str | None = None) -> None:
        self.url, self.through = url.rstrip("/"), through and through.rstrip("/")
        self._client: aiohttp.ClientSession | None = None
        self._aborts: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._client = client()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*self._aborts)
        await self.client.close()

    @property
    def client(self) -> aiohttp.ClientSession:
        """What everything else goes to the engine with."""
        assert self._client is not None, "a source is used inside `async with`"  # noqa: S101
        return self._client

    async def generate(
        self, prompt: Sequence[int], tokens: int, model: str, headers: Mapping[str, str], *, stream: bool
    ) -> AsyncGenerator[Part, None]:
        """Continue ``prompt`` by ``tokens``; the last part is the end. Whoever stops before that ends the generation.

        Args:
            prompt: token ids.
            tokens: exactly so many come, whatever they are.
            model: as the client names it.
            headers: the client's, for a proxy that knows agents by them.
            stream: whether parts before the last are wanted.

        Raises:
            BadRequestError: the engine, or the proxy, refuses or fails; with its own status and words.
        """
        if self.through is not None:
            async for part in self._completion(prompt, tokens, model, headers):
                yield part
            return
        name = uuid.uuid4().hex
        body = {
            "input_ids": list(prompt),
            "rid": name,
            "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True, "temperature": 0},
            "stream": stream,
        }
        ended = False
        try:
            async with self._asked(f"{self.url}/generate", body) as response:
                async for event in _events(response) if stream else _whole(response):
                    part = _part(event)
                    ended = part.reason is not None
                    yield part
        finally:
            if not ended:
                self._abort(name)

    async def _completion(
        self, prompt: Sequence[int], tokens: int, model: str, headers: Mapping[str, str]
    ) -> AsyncIterator[Part]:
        body = {
            "model": model,
            "prompt": list(prompt),
            "max_tokens": tokens,
            "min_tokens": tokens,
            "ignore_eos": True,
            "temperature": 0,
        }
        plain = {name: value for name, value in headers.items() if name.lower() != "accept-encoding"}
        async with self._asked(f"{self.through}/v1/completions", body, plain) as response:
            async for event in _whole(response):
                try:
                    yield Part(TokenUsage.of(event["usage"]), (), event["choices"][0]["finish_reason"] or "length")
                except (LookupError, TypeError) as error:
                    raise _odd(event) from error

    @asynccontextmanager
    async def _asked(
        self, url: str, body: object, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            async with self.client.post(url, json=body, headers=headers) as response:
                if response.status != 200:
                    raise BadRequestError(_message(await response.text()), status=response.status)
                yield response
        except (aiohttp.ClientError, OSError) as error:
            raise BadRequestError(f"{url}: {error!r}", status=502, kind="502") from error

    def _abort(self, name: str) -> None:
        """Have the engine end what nobody waits for: a server may go on after its client has left."""
        task = asyncio.create_task(self._end(name))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    async def _end(self, name: str) -> None:
        try:
            async with self.client.post(f"{self.url}/abort_request", json={"rid": name}) as response:
                await response.read()
        except (aiohttp.ClientError, OSError):  # an engine that is gone has ended it
            return


async def _whole(response: aiohttp.ClientResponse) -> AsyncIterator[Mapping[str, Any]]:
    yield _json(await response.text())


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[Mapping[str, Any]]:
    async for line in response.content:
        data = line.decode().strip()
        if data.startswith("data:") and not data.endswith("[DONE]"):
            yield _json(data.removeprefix("data:"))


def _json(text: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    if not isinstance(data, Mapping):
        raise _odd(text)
    return data


def _part(event: Mapping[str, Any]) -> Part:
    if "error" in event:
        raise BadRequestError(_message(json.dumps(event)), status=500, kind="500")
    try:
        meta = event["meta_info"]
        reason = meta["finish_reason"]
        return Part(TokenUsage.of(meta), event.get("output_ids") or (), None if reason is None else reason["type"])
    except (LookupError, TypeError) as error:
        raise _odd(event) from error


def _message(text: str) -> str:
    """The words of an error, from wherever an engine has put them."""
    try:
        data = json.loads(text)
    except ValueError:
        return text[:1000] or "an error without words"
    inner = data.get("error", data) if isinstance(data, Mapping) else data
    words = inner.get("message", inner.get("detail")) if isinstance(inner, Mapping) else inner
    return str(words or text)[:1000]


def _odd(answer: object) -> BadRequestError:
    return BadRequestError(f"no answer of an engine: {answer!r:.300}", status=502, kind="502")
