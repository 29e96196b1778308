"""What stands before the servers gives each request to the one that it says it does."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter

import aiohttp
import pytest
from aiohttp import web

from benchmarks.fleet.real.fronts import AGENT_HEADER, FRONTS, GATEWAY, get_fronts, opened

PLAIN = [name for name in FRONTS if name != GATEWAY]
needs_nginx = pytest.mark.skipif(
    shutil.which("nginx", path="/usr/bin:/usr/sbin") is None, reason="nginx is not installed"
)


class Servers:
    """Two that say who they are; who is asked for ``/held`` answers when it is let go."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.held = asyncio.Event()
        self.go = asyncio.Event()
        self._runners: list[web.AppRunner] = []

    async def start(self) -> None:
        for name in ("one", "two"):
            app = web.Application()
            app.add_routes([web.route("*", "/held", self._hold(name)), web.route("*", "/{path:.*}", self._say(name))])
            runner = web.AppRunner(app)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.urls.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
            self._runners.append(runner)

    async def stop(self) -> None:
        for runner in self._runners:
            await runner.cleanup()

    def _say(self, name: str):
        async def say(_: web.Request) -> web.Response:
            return web.Response(text=name)

        return say

    def _hold(self, name: str):
        async def hold(_: web.Request) -> web.Response:
            self.held.set()
            await self.go.wait()
            return web.Response(text=name)

        return hold


@pytest.fixture
async def servers():
    both = Servers()
    await both.start()
    yield both
    await both.stop()


async def said(session: aiohttp.ClientSession, url: str, agent: str) -> str:
    async with session.post(f"{url}/generate", data=b"x" * 300_000, headers={AGENT_HEADER: agent}) as reply:
        assert reply.status == 200
        return await reply.text()


@needs_nginx
async def test_a_plain_front_gives_each_request_to_the_server_with_fewest_in_flight(servers, tmp_path) -> None:
    async with opened(FRONTS["front"], servers.urls, tmp_path) as front, aiohttp.ClientSession() as session:
        long = asyncio.ensure_future(session.post(f"{front.url}/held"))
        await servers.held.wait()
        others = Counter([await said(session, front.url, "an agent") for _ in range(6)])
        servers.go.set()
        async with await long as reply:
            assert others == {"one" if await reply.text() == "two" else "two": 6}


@needs_nginx
async def test_a_sticky_front_gives_an_agent_always_the_same_server_and_uses_both(servers, tmp_path) -> None:
    async with opened(FRONTS["sticky"], servers.urls, tmp_path) as front, aiohttp.ClientSession() as session:
        places = {agent: {await said(session, front.url, agent) for _ in range(3)} for agent in map(str, range(24))}
    assert all(len(each) == 1 for each in places.values())
    assert set.union(*places.values()) == {"one", "two"}


@needs_nginx
@pytest.mark.parametrize("name", PLAIN)
async def test_a_server_that_is_down_costs_its_own_requests_and_nobody_is_sent_twice(name, servers, tmp_path) -> None:
    down = "http://127.0.0.1:1"
    async with opened(FRONTS[name], [servers.urls[0], down], tmp_path) as front, aiohttp.ClientSession() as session:
        statuses = set()
        for agent in map(str, range(24)):
            async with session.post(f"{front.url}/generate", headers={AGENT_HEADER: agent}) as reply:
                statuses.add(reply.status)
    assert statuses == {200, 502}


def test_the_gateway_is_told_every_server_and_nothing_else(tmp_path) -> None:
    command = FRONTS[GATEWAY].command(["http://a:1", "http://b:2"], 8300, tmp_path)
    assert command[1:] == [
        *("-m", "concur_agents.cli", "gateway", "--engine", "http://a:1", "--port", "8300"),
        *("--engine", "http://b:2"),
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [(["front", "lvs"], "arm must be one of front, sticky, gateway, got 'lvs'"), ([], "once"), (["front"] * 2, "once")],
)
def test_arms_that_cannot_be_are_refused(names, message) -> None:
    with pytest.raises(ValueError, match=message):
        get_fronts(names)
    assert [front.name for front in get_fronts(["gateway", "front"])] == ["gateway", "front"]
