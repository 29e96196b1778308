"""A relay whose connections are cut and held up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit

import pytest

from benchmarks.chaos.wire import Wire

Way = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[Wire], Awaitable[Way]]


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """The port of a server that answers with what it gets."""
    ended: list[asyncio.Task[None] | None] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(asyncio.current_task())
        with contextlib.closing(writer), contextlib.suppress(OSError):
            while line := await reader.readline():
                writer.write(line)

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
    await asyncio.gather(*(task for task in ended if task is not None))


@pytest.fixture
async def connected() -> AsyncIterator[Connect]:
    """Connects to a wire; closed in the end."""
    writers = []

    async def connect(wire: Wire) -> Way:
        parts = urlsplit(wire.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writers.append(writer)
        return reader, writer

    yield connect
    for writer in writers:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def said(way: Way, words: bytes) -> bytes:
    reader, writer = way
    writer.write(words + b"\n")
    return (await reader.readline()).strip()


async def test_what_is_said_passes_both_ways_on_every_connection(echo: int, connected: Connect) -> None:
    async with Wire(echo) as wire:
        first, second = await connected(wire), await connected(wire)
        assert [await said(first, b"a"), await said(second, b"b"), await said(first, b"c")] == [b"a", b"b", b"c"]


async def test_a_cut_drops_every_connection_and_no_later_one(echo: int, connected: Connect) -> None:
    async with Wire(echo) as wire:
        ways = [await connected(wire) for _ in range(2)]
        for way in ways:
            assert await said(way, b"there") == b"there"
        wire.cut()
        for reader, _ in ways:
            with pytest.raises(ConnectionResetError):
                await reader.readline()
        assert await said(await connected(wire), b"again") == b"again"


@pytest.mark.parametrize("lost", [False, True])
async def test_what_is_held_up_comes_late_or_never(echo: int, connected: Connect, *, lost: bool) -> None:
    async with Wire(echo) as wire:
        reader, writer = way = await connected(wire)
        assert await said(way, b"before") == b"before"
        holding = asyncio.create_task(wire.hold(0.2, lost=lost))
        await asyncio.sleep(0)
        writer.write(b"held\n")
        reading = asyncio.create_task(reader.readline())
        await asyncio.wait([holding, reading], return_when=asyncio.FIRST_COMPLETED)
        assert holding.done()
        if lost:
            with pytest.raises(ConnectionResetError):
                await reading
        else:
            assert await reading == b"held\n"
        assert await said(await connected(wire), b"after") == b"after"


async def test_a_server_that_is_gone_is_a_connection_that_ends(connected: Connect) -> None:
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0) as server:
        gone = server.sockets[0].getsockname()[1]
    async with Wire(gone) as wire:
        reader, _ = await connected(wire)
        with pytest.raises(ConnectionResetError):
            await reader.readline()
