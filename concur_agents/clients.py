"""``concur.wrap_client``: a client of OpenAI's or Anthropic's SDK whose generations are steps of the agent around them.

Each of these SDKs sends everything through one method, ``request``, of a base class that is generated alike for all of
them. A subclass of the client's own class overrides it, so that whatever is built on it is covered without a list:
``create``, ``parse``, ``stream``, raw and streaming responses, copies. What is used of the SDK, seen in openai 2.0 to
3.57 and anthropic 2.14: ``copy()``, ``default_headers``, the request's ``method``, ``url``, ``headers``, ``json_data``,
``extra_json`` and ``post_parser``, a stream's ``response`` and ``_iterator``, a raw response's ``http_response``.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import inspect
import json
import logging
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar, cast

from concur_agents.adapters import AgentRun, Faults, ModelCall
from concur_agents.agents import Agent, Agents
from concur_agents.routing import Engines, is_sdk, route
from concur_agents.usage import TokenUsage

__all__ = ["wrap_client"]

_log = logging.getLogger("concur_agents")
_Client = TypeVar("_Client")

_STREAMS_WITHOUT_USAGE = frozenset({"/chat/completions", "/completions"})
"""Generations whose streams tell their usage only if asked to."""
_GENERATIONS = _STREAMS_WITHOUT_USAGE | {"/responses", "/v1/messages", "/v1/complete"}
_RAW = "x-stainless-raw-response"
"""The SDK's own mark on a request whose reply the user wants unread."""


class _Controller(Agents, Engines, Protocol):
    """Makes agents, and knows where they are."""


def wrap_client(client: _Client, agents: _Controller) -> _Client:
    """A client of the same class whose generations are steps; see ``Controller.wrap_client``.

    Raises:
        TypeError: it is no such client.
    """
    if not is_sdk(type(client)):
        raise TypeError(f"wrap_client takes a client of the openai or anthropic package, got {client!r:.80}")
    client = route(client, agents)  # within the step, when it is known where that is
    kind: Any = type(client)
    overridden = _async_request if inspect.iscoroutinefunction(kind.request) else _request
    names = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "request": overridden(kind, _Gate(agents)),
    }
    # The class carries the gate, so that the copies which the client makes of itself have it too.
    wrapped: Any = cast("Any", client).copy()
    wrapped.__class__ = type(kind.__name__, (kind,), names)
    return cast("_Client", wrapped)


class _Gate:
    """Finds the agent around a request."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._faults = Faults.of(agents, _log)

    def generation(self, options: Any) -> _Generation | None:
        """The step that this request is; None when it is none."""
        with self._faults.never_fatal("tell whose request it is"):
            if str(options.method).lower() != "post" or _path(options) not in _GENERATIONS:
                return None
            agent = self._agents.current_agent()
            if agent is not None:
                return _Generation(self._agents, agent)
            self._faults.say(
                "outside",
                "A client wrapped by Concur was called outside of any agent, and the request goes through uncounted: "
                "call it under @concur.agent or in `with concur.agent(...)`, and take the context along into threads",
            )
        return None

    def may_block(self) -> bool:
        """False in an event loop's own thread: who holds the seat may need that very loop in order to give it back."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return True
        self._faults.say(
            "blocking",
            "A blocking client wrapped by Concur was called in an event loop, and the request goes through uncounted: "
            "wrap the async client, or call this one in asyncio.to_thread",
        )
        return False


def _async_request(kind: Any, gate: _Gate) -> Any:
    async def request(self: Any, cast_to: Any, options: Any, **kwargs: Any) -> Any:
        generation = gate.generation(options)
        if generation is None:
            return await kind.request(self, cast_to, options, **kwargs)
        await generation.call.__aenter__()
        try:
            result = await kind.request(self, cast_to, generation.prepared(self, options, **kwargs), **kwargs)
        except BaseException:  # an error, a cancel, an interrupt: no reply comes, so the agent is at its boundary
            generation.call.end()
            raise
        generation.replied(result)
        return result

    return request


def _request(kind: Any, gate: _Gate) -> Any:
    def request(self: Any, cast_to: Any, options: Any, **kwargs: Any) -> Any:
        generation = gate.generation(options)
        if generation is None or not gate.may_block():
            return kind.request(self, cast_to, options, **kwargs)
        generation.call.__enter__()
        try:
            result = kind.request(self, cast_to, generation.prepared(self, options, **kwargs), **kwargs)
        except BaseException:  # an error, a cancel, an interrupt: no reply comes, so the agent is at its boundary
            generation.call.end()
            raise
        generation.replied(result)
        return result

    return request


class _Generation:
    """One request: from waiting for the seat until the reply is there, or its stream has ended."""

    def __init__(self, agents: Agents, agent: Agent) -> None:
        run = AgentRun(agents, agent.agent_id, parent=agent.parent, log=_log)  # not entered: somebody else's to end
        self._faults: Final = run.faults
        self._headers = agent.headers
        self._usage = TokenUsage()
        self._hides_usage = False
        """We asked for a chunk with the usage, and the user did not."""
        self.call: Final[ModelCall] = run.step()

    def prepared(self, client: Any, options: Any, *, stream: bool = False, **_: Any) -> Any:
        """The request as it is to be sent. The user's own header, and what they say about usage, stay."""
        prepared = options
        with self._faults.never_fatal("prepare a request"):
            prepared = self._prepared(client, options, stream=stream)
        return prepared  # noqa: RET504 - the assignment above may have failed

    def replied(self, result: Any) -> None:
        """The request has come back with ``result``; what of it is still to come belongs to the step."""
        stream = _is_stream(result)
        response = getattr(result, "http_response", None) or (result.response if stream else result)
        closed = getattr(response, "is_closed", None)  # None: no HTTP response but a reply, which the parser has seen
        with self._faults.never_fatal("follow a reply"):
            if closed is False:
                _watch(response, self)
                return
            if closed and not stream:
                self.seen_body(response.content)
        self.call.end()

    def seen(self, item: Any) -> bool:
        """Take the usage of a reply or of a part of one; False when it is a part that the user did not ask for."""
        with self._faults.never_fatal("observe usage"):
            usage = _usage_in(item)
            if usage is not None:
                new, old = TokenUsage.of(usage), self._usage
                # Anthropic's streams tell the prompt's tokens first and the output's last.
                self._usage = TokenUsage(
                    prompt=old.prompt if new.prompt is None else new.prompt,
                    cached=old.cached if new.cached is None else new.cached,
                    output=old.output if new.output is None else new.output,
                )
                self.call.observe(self._usage)
                return not self._hides_usage or bool(getattr(item, "choices", True))
        return True

    def seen_body(self, body: bytes) -> None:
        """The same for a reply that the user wants unread."""
        with contextlib.suppress(ValueError):  # no JSON, so nothing that tells usage
            self.seen(json.loads(body))

    def _prepared(self, client: Any, options: Any, *, stream: bool) -> Any:
        ours = copy.copy(options)
        given = dict(options.headers) if isinstance(options.headers, Mapping) else {}
        taken = {name.lower() for name in (*given, *client.default_headers)}
        ours.headers = given | {name: value for name, value in self._headers.items() if name.lower() not in taken}
        body, extra = options.json_data, getattr(options, "extra_json", None) or {}
        asked = not isinstance(body, Mapping) or "stream_options" in body or "stream_options" in extra
        if stream and _path(options) in _STREAMS_WITHOUT_USAGE and not asked and _RAW not in map(str.lower, given):
            ours.json_data = {**body, "stream_options": {"include_usage": True}}
            self._hides_usage = True
        users_parser = options.post_parser
        ours.post_parser = lambda parsed: self._parsed(users_parser(parsed) if callable(users_parser) else parsed)
        return ours

    def _parsed(self, parsed: Any) -> Any:
        if _is_stream(parsed):
            with self._faults.never_fatal("observe usage"):
                items = parsed._iterator
                parsed._iterator = (_AsyncItems if hasattr(items, "__anext__") else _Items)(items, self.seen)
        else:
            self.seen(parsed)
        return parsed


class _Items:
    """A stream's items, seen as they pass. No generator, which would be one more thing to close."""

    def __init__(self, items: Any, seen: Callable[[Any], bool]) -> None:
        self._items = items
        self._seen = seen

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while not self._seen(item := next(self._items)):
            pass
        return item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._items, name)


class _AsyncItems:
    """The same for async streams."""

    def __init__(self, items: Any, seen: Callable[[Any], bool]) -> None:
        self._items = items
        self._seen = seen

    def __aiter__(self) -> _AsyncItems:
        return self

    async def __anext__(self) -> Any:
        while not self._seen(item := await anext(self._items)):
            pass
        return item

    def __getattr__(self, name: str) -> Any:
        return getattr(self._items, name)


def _watch(response: Any, generation: _Generation) -> None:
    """End the step when the response is closed, as every way of reading it to its end does, or collected."""
    kind, this = type(response), weakref.ref(response)  # no cycle: a dropped response is to end at once
    end = generation.call.end
    reading = False

    @contextlib.contextmanager
    def until_read() -> Iterator[None]:
        nonlocal reading
        reading = True
        try:
            yield
        finally:
            reading = False
            end()

    def closed() -> None:
        if not reading:  # else its body is not put together yet
            end()

    def close() -> None:
        try:
            kind.close(this())
        finally:
            closed()

    async def aclose() -> None:
        try:
            await kind.aclose(this())
        finally:
            closed()

    def read() -> bytes:
        with until_read():
            body: bytes = kind.read(this())
            generation.seen_body(body)
            return body

    async def aread() -> bytes:
        with until_read():
            body: bytes = await kind.aread(this())
            generation.seen_body(body)
            return body

    for method in (close, aclose, read, aread):
        setattr(response, method.__name__, method)
    weakref.finalize(response, end).atexit = False


def _path(options: Any) -> str:
    return str(options.url).partition("?")[0]


def _is_stream(result: Any) -> bool:
    return hasattr(type(result), "__stream__") and hasattr(result, "response")


def _usage_in(item: Any) -> Any:
    """In a reply or a part of one: its own, in an event the response's (OpenAI) or the message's (Anthropic)."""
    for holder in (item, _get(item, "response"), _get(item, "message")):
        usage = _get(holder, "usage")
        if usage is not None:
            return usage
    return None


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
