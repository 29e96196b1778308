"""Every arm can be started, ends with its block, and what is missing is named."""

from __future__ import annotations

import asyncio
import shutil
import sys

import aiohttp
import pytest

from benchmarks.gateway import arms as these
from benchmarks.gateway.arms import ARMS, DIRECT, PEER, find_program, served
from benchmarks.gateway.children import run
from benchmarks.gateway.measure import turned
from benchmarks.gateway.stub import streamed
from benchmarks.gateway.workload import body, stream_body

PROXIES = [arm for arm in ARMS if arm.command is not None]


def test_what_others_are_compared_with_is_there():
    keys = [arm.key for arm in ARMS]
    assert keys[0] == DIRECT
    assert PEER in keys
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("arm", PROXIES, ids=lambda arm: arm.key)
async def test_a_proxy_passes_replies_and_streams_and_ends(arm, stub, tmp_path):
    if arm.key == "nginx" and shutil.which("nginx", path="/usr/bin:/usr/sbin") is None:
        pytest.skip("nginx is not installed")
    port = these.free_port()
    async with served(arm.command(stub.url, port, tmp_path), port, tmp_path / "log"):
        url = f"http://127.0.0.1:{port}/v1/chat/completions"
        async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as session:
            async with session.post(url, data=body("agent", 19)) as reply:
                assert (await reply.json())["usage"]["prompt_tokens"] == 5000
            async with session.post(url, data=stream_body("stream-1")) as reply:
                assert await reply.read() == streamed("stream-1")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


def test_a_missing_program_is_named_with_its_package(monkeypatch):
    monkeypatch.setattr(these.shutil, "which", lambda *_, **__: None)
    with pytest.raises(FileNotFoundError, match="nginx is not installed: apt-get install nginx-light"):
        find_program("nginx")


def test_each_goes_first_in_turn():
    assert [turned("abc", repeat) for repeat in (1, 2, 4)] == [list("abc"), list("bca"), list("abc")]


async def test_a_child_is_heard_to_its_end():
    assert await run([sys.executable, "-c", "print('so'); raise SystemExit(3)"], 60) == (3, "so\n")


async def test_a_child_that_takes_too_long_is_ended():
    with pytest.raises(TimeoutError):
        await run([sys.executable, "-c", "import time; time.sleep(600)"], 0.01)
