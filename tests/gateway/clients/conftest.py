"""Clients as they are released, on two ways to engines that answer alike: straight on, and through a gateway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml

from concur_agents.emulator.scripts import ScriptedReply

CASSETTES = Path(__file__).parents[2] / "emulator" / "cassettes"
ITS_OWN = {"id", "created", "created_at", "completed_at", "item_id", "call_id", "tool_call_id", "sequence_number"}
"""What no two replies have in common; numbers of events depend on how a text is cut."""
SCRIPTED = "Look into the folder."
REPLIES: list[dict[str, Any]] = [
    {"content": "I look.", "reasoning": "Hm.", "tool_calls": [{"name": "bash", "arguments": {"cmd": "ls"}}]},
    {"content": "Done."},
]


# --- engines ---


@pytest.fixture(scope="module")
def _ways(wire: Any) -> Iterator[Any]:
    with wire.emulator() as alone, wire.emulator() as behind, wire.serve(behind.url) as served:
        for engine in alone, behind:
            script(engine)
        yield SimpleNamespace(
            direct=alone.url,
            through=served.url,
            urls=(alone.url, served.url),
            served=served,
            model=alone.service.config.model,
        )


@pytest.fixture
def ways(_ways: Any) -> Any:
    """Two engines that answer alike, one of them behind a gateway: what is cached is the same on both ways."""
    for url in _ways.urls:
        assert httpx.post(url + "/flush_cache").status_code == 200
    for member in list(_ways.served.gateway.roster):
        httpx.delete(f"{_ways.through}/concur/v1/agents/{member.agent_id}")
    return _ways


@pytest.fixture(scope="module")
def sglang(wire: Any) -> Iterator[Any]:
    """An engine that says what it is told to, the last of it again and again, and a gateway before it."""
    now = SimpleNamespace(answers=[])
    with (
        wire.RawEngine(lambda *_: now.answers.pop(0) if now.answers[1:] else now.answers[0]) as engine,
        wire.serve(engine.url) as served,
    ):
        now.engine, now.served, now.urls = engine, served, (engine.url, served.url)
        yield now


def script(engine: Any) -> None:
    """Have an emulator look into the folder, when it is asked to."""
    replies = [ScriptedReply.parse(reply, "reply") for reply in REPLIES]
    engine.service.scripts.register(SCRIPTED, replies, SCRIPTED)


def idle(ways: Any) -> bool:
    """Whether every agent is at its boundary."""
    return all(member.open == 0 for member in ways.served.gateway.roster)


# --- what is said ---


def kept(value: Any) -> Any:
    """Without what is each reply's own, at any depth."""
    if isinstance(value, dict):
        return {name: kept(each) for name, each in value.items() if name not in ITS_OWN}
    return [kept(each) for each in value] if isinstance(value, list) else value


def reply_of(status: int, body: bytes, *, chunked: bool = False, **headers: str) -> bytes:
    """A reply on the wire; a stream in chunks, one event each."""
    lines = [f"HTTP/1.1 {status} Said", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    if chunked:
        events = [event + b"\n\n" for event in body.split(b"\n\n") if event]
        body = b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events) + b"0\r\n\r\n"
    lines.append("Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def as_sent(interaction: Any) -> bytes:
    """A recorded reply, on the wire again."""
    response = interaction["response"]
    kind = response["headers"]["content-type"][0]
    said = response["body"]["string"].encode()
    streams = kind.startswith("text/event-stream")
    return reply_of(response["status"]["code"], said, chunked=streams, Content_Type=kind)


def recorded(cassette: str, prefix: str, *methods: str) -> list[Any]:
    """What a real engine answered on paths that begin so, to these methods or any."""
    played = yaml.safe_load((CASSETTES / cassette).read_text())["interactions"]
    wanted = [each for each in played if each["request"]["method"] in (methods or (each["request"]["method"],))]
    return [each for each in wanted if each["request"]["uri"].startswith("http://engine" + prefix)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test of an ``interaction`` is run for each of its module's ``RECORDED``: see ``recorded``."""
    if "interaction" in metafunc.fixturenames:
        metafunc.parametrize("interaction", found := recorded(*metafunc.module.RECORDED), ids=range(len(found)))


@dataclass(frozen=True)
class Talk:
    """Calls by a client library, each by a client of its own, that never tries twice."""

    client: Any
    async_client: Any
    suffix: str
    """Of the base address, after the engine's own."""
    joined: Callable[[list[Any]], Any]
    """What a stream's events say, however its text is cut: that is the engine's speed at the moment."""

    def sync(self, url: str, call: Callable[[Any], Any]) -> Any:
        """What the client makes of the reply."""
        with self.client(base_url=url + self.suffix, api_key="none", max_retries=0) as client:
            reply = call(client)
            if hasattr(reply, "__next__"):
                return self.joined([kept(event.model_dump(warnings=False)) for event in reply])
            return kept(reply.model_dump(warnings=False))

    async def later(self, url: str, call: Callable[[Any], Any]) -> Any:
        """The same of the asynchronous client."""
        async with self.async_client(base_url=url + self.suffix, api_key="none", max_retries=0) as client:
            reply = await call(client)
            if hasattr(reply, "__anext__"):
                return self.joined([kept(event.model_dump(warnings=False)) async for event in reply])
            return kept(reply.model_dump(warnings=False))


@pytest.fixture(scope="session")
def kit() -> Any:
    """What tests put together by themselves."""
    return SimpleNamespace(
        Talk=Talk, kept=kept, idle=idle, script=script, reply_of=reply_of, as_sent=as_sent, recorded=recorded
    )
