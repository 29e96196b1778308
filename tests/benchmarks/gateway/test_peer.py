"""The stand-in does what its design does: it passes replies on, and keeps a table of programs."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from benchmarks.gateway.peer import build_app
from benchmarks.gateway.stub import streamed
from benchmarks.gateway.workload import body, stream_body


@pytest.fixture
async def peer(stub):
    """A client of the stand-in, in front of the stub; ``peer.programs`` is its table."""
    programs = {}
    app = build_app(stub.url, programs)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://peer") as client,
    ):
        client.programs = programs
        yield client


async def send(peer, data, **headers):
    return await peer.post("/v1/chat/completions", content=data, headers=headers)


async def test_a_reply_is_passed_on_and_counted(peer, stub):
    reply = await send(peer, body("a", 3), **{"X-Session-ID": "agent-1"})
    assert reply.json()["usage"]["total_tokens"] == peer.programs["agent-1"].tokens
    assert not peer.programs["agent-1"].generating
    assert json.loads(stub.bodies[0]) == json.loads(body("a", 3))


@pytest.mark.parametrize(
    ("data", "headers", "name"),
    [
        (b'{"program_id": "p"}', {"X-Session-ID": "s"}, "p"),
        (b"{}", {"X-Session-ID": "s"}, "s"),
        (b"{}", {}, "default"),
    ],
)
async def test_a_program_is_found_by_what_the_request_says(peer, data, headers, name):
    await send(peer, data, **headers)
    await send(peer, data, **headers)
    assert {key: program.steps for key, program in peer.programs.items()} == {name: 2}


async def test_streams_are_whole_and_their_usage_is_read(peer):
    users = [f"stream-{number}" for number in range(8)]
    replies = await asyncio.gather(*(send(peer, stream_body(user), **{"X-Session-ID": user}) for user in users))
    assert [reply.content for reply in replies] == [streamed(user) for user in users]
    assert not any(program.generating for program in peer.programs.values())
