"""Shared by the emulator's tests: an ASGI client without a network, and an event loop without waiting."""

import asyncio
import json
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from concur_agents.emulator.app import create_app
from concur_agents.emulator.config import EngineConfig
from concur_agents.emulator.cost import CostModel
from concur_agents.emulator.service import ServiceConfig

COST = CostModel(prefill_token_s=0.001, decode_base_s=0.01)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    chunks: list[bytes] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """The objects of an event stream; its end must be there."""
        lines = [line.removeprefix("data: ") for line in self.text.split("\n\n") if line]
        assert lines.pop() == "[DONE]"
        return [json.loads(line) for line in lines]

    def named(self) -> list[Any]:
        """The same where each event has the name that its object gives for its type."""
        events = []
        for block in filter(None, self.text.split("\n\n")):
            name, _, data = block.partition("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {events[-1]['type']}"
        return events


class AsgiClient:
    """Calls an ASGI app in the running loop. `leave` makes the client go away in the middle of a request."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.service = app.state.service

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.call("GET", path, b"", headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return await self.call("POST", path, json.dumps(body).encode(), {"content-type": "application/json", **headers})

    async def held(self, call: Coroutine[Any, Any, Answer]) -> asyncio.Task[Answer]:
        """A call whose request waits in an engine that stands still."""
        self.service.driver.pause()
        task = asyncio.ensure_future(call)
        for _ in range(100):
            if self.service.scheduler.waiting:
                return task
            await asyncio.sleep(0)
        raise AssertionError("it did not reach the engine")

    async def call(
        self, method: str, path: str, body: bytes, headers: dict[str, str], leave: asyncio.Event | None = None
    ) -> Answer:
        inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        inbox.put_nowait({"type": "http.request", "body": body, "more_body": False})
        answer = Answer(0, {}, b"")

        async def receive() -> dict[str, Any]:
            if inbox.empty():
                await (leave or asyncio.Event()).wait()
                return {"type": "http.disconnect"}
            return inbox.get_nowait()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            elif message.get("body"):
                answer.body += message["body"]
                answer.chunks.append(message["body"])

        raw_path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": raw_path,
            "raw_path": raw_path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(k.replace("_", "-").lower().encode(), v.encode()) for k, v in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        await self.app(scope, receive, send)
        return answer


@pytest.fixture
def serve() -> Callable[..., AsgiClient]:
    """Makes an emulated server: engine fields by name, and the service's `seed`, `speedup`, ... with them."""

    def make(tokenizer: Any = None, **fields: Any) -> AsgiClient:
        service = {name: fields.pop(name) for name in list(fields) if name in ServiceConfig.__dataclass_fields__}
        engine = EngineConfig(**{"max_total_tokens": 4000, "context_length": 2000, **fields})
        # So fast that no test waits: engine seconds become microseconds.
        config = ServiceConfig(**{"engine": engine, "cost": COST, "model": "model", "speedup": 1e6, **service})
        return AsgiClient(create_app(config, tokenizer))

    return make


class _VirtualLoop(asyncio.SelectorEventLoop):
    """Its clock jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._now


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, loop: _VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "nothing will ever happen: the test hangs"
            self._loop._now += max(timeout, 0)
        return ready


@pytest.fixture
def virtually() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine on a loop with virtual time, where sleeping is free."""

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
            return runner.run(main)

    return run
