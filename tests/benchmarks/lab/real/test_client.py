"""What goes over the wire."""

from __future__ import annotations

import pytest
from aiohttp import web

from benchmarks.lab.real.client import SGLangClient


@pytest.fixture
async def server():
    """Its address, and the requests it was sent: (headers, body)."""
    sent: list[tuple[dict[str, str], dict]] = []

    async def generate(request: web.Request) -> web.Response:
        body = await request.json()
        sent.append(({name.lower(): value for name, value in request.headers.items()}, body))
        ids = list(range(body["sampling_params"]["max_new_tokens"]))
        meta = {"prompt_tokens": len(body["input_ids"]), "cached_tokens": 1, "completion_tokens": len(ids)}
        return web.json_response({"output_ids": ids, "meta_info": meta})

    app = web.Application()
    app.add_routes([web.post("/generate", generate)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}", sent
    await runner.cleanup()


async def _nothing() -> None:
    pass


async def test_each_request_has_the_headers_of_its_name_and_none_besides(server) -> None:
    url, sent = server
    plain = SGLangClient(url, "words", _nothing)
    named = SGLangClient(url, "words", _nothing, lambda name: {"X-Session-ID": name.partition("/")[0]})
    for client in (plain, named):
        reply = await client.generate("a/0", [5, 6, 7], [0, 0])
        assert (reply.usage.prompt, reply.usage.cached, list(reply.ids)) == (3, 1, [0, 1])
        await client.close()
    (first, body), (second, other) = sent
    assert body == other
    assert "x-session-id" not in first
    assert second["x-session-id"] == "a"
    assert second.keys() - first.keys() == {"x-session-id"}
