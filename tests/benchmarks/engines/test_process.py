"""A server and all it started are gone, however the benchmark leaves. The servers here are real processes."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.engines.process import serve
from benchmarks.engines.warden import members
from benchmarks.engines.wire import EngineError

FAKE = Path(__file__).with_name("fake_server.py")


class Pipe:
    """A named pipe that every process of the fake server holds open: its end says that all have ended."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._told = b""

    def ready(self) -> bool:
        """Whether leader and child have both begun."""
        if select.select([self._reader], [], [], 0.02)[0]:
            self._told += os.read(self._reader, 10)
        return self._told == b"rr"

    def wait_for_the_end(self) -> None:
        os.set_blocking(self._reader, True)
        while os.read(self._reader, 10):
            pass
        os.close(self._reader)


@pytest.fixture
def pipe(tmp_path):
    return Pipe(tmp_path / "pipe")


@pytest.fixture
def start(pipe, tmp_path):
    """Serve the fake server with the given ways."""

    def start(*ways, ready=None, start_s=60.0, stop_s=60.0):
        return serve(
            [sys.executable, str(FAKE), str(pipe.path), *ways],
            environment=os.environ,
            log=tmp_path / "logs" / "server.log",
            ready=ready or pipe.ready,
            start_s=start_s,
            stop_s=stop_s,
        )

    return start


async def test_server_and_child_end_when_the_block_is_left(start, pipe):
    async with start() as server:
        assert len(members(server.sid)) == 3  # warden, server, child
    pipe.wait_for_the_end()
    assert members(server.sid) == []


async def test_they_end_when_the_block_raises_and_the_error_comes_through(start, pipe):
    with pytest.raises(ZeroDivisionError):
        async with start():
            raise ZeroDivisionError
    pipe.wait_for_the_end()


@pytest.mark.parametrize("way", ["deaf", "orphans"])
async def test_whoever_does_not_end_by_itself_is_killed(start, pipe, way):
    async with start(way, stop_s=0.1) as server:
        pass
    pipe.wait_for_the_end()
    assert members(server.sid) == []


async def test_they_end_when_the_benchmark_is_cancelled(start, pipe):
    up = asyncio.Event()

    async def run():
        async with start():
            up.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await up.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    pipe.wait_for_the_end()


async def test_cancelled_once_more_while_ending_they_are_killed_at_once(start, pipe):
    leaving = asyncio.Event()

    async def run():
        async with start("deaf"):  # would take a minute to be given up
            leaving.set()

    task = asyncio.create_task(run())
    await leaving.wait()
    await asyncio.sleep(0)  # into the wait for its end
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    pipe.wait_for_the_end()


async def test_cancelled_while_it_starts_it_ends(start, pipe):
    task = None

    def never_ready():
        if pipe.ready():
            task.get_loop().call_soon_threadsafe(task.cancel)
        return False

    async def run():
        async with start(ready=never_ready):
            pytest.fail("it was never ready")

    task = asyncio.create_task(run())
    with pytest.raises(asyncio.CancelledError):
        await task
    pipe.wait_for_the_end()


async def test_a_server_that_ends_at_once_is_reported_with_the_end_of_its_log(start):
    with pytest.raises(EngineError, match=r"(?s)exit code 3.*server.log.*fake server says hello"):
        async with start("dies", ready=lambda: False):
            pytest.fail("it was never ready")


async def test_one_that_is_never_ready_is_given_up_and_ended(start, pipe):
    with pytest.raises(EngineError, match=r"not ready within 0\.2 s"):
        async with start(ready=lambda: False, start_s=0.2):
            pytest.fail("it was never ready")
    # It may have been ended before it even opened the pipe; then there is nothing to wait for.


async def test_a_program_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(EngineError, match=r"(?s)exit code 1.*no-such-program"):
        async with serve(
            ["/no-such-program"], environment=os.environ, log=tmp_path / "log", ready=lambda: False, start_s=60.0
        ):
            pytest.fail("it cannot be ready")


async def test_they_end_when_the_warden_itself_is_killed(start, pipe):
    async with start("deaf", stop_s=0.1) as server:
        os.kill(server.sid, signal.SIGKILL)
    pipe.wait_for_the_end()


async def test_a_server_that_dies_later_is_noticed_when_asked(start, pipe):
    async with start() as server:
        server.check()
        _, leader, _ = sorted(members(server.sid))
        os.kill(leader, signal.SIGKILL)
        pipe.wait_for_the_end()
        server._process.wait()
        with pytest.raises(EngineError, match="ended with exit code 137"):
            server.check()


BENCHMARK = """
import asyncio, os, sys
from pathlib import Path
from benchmarks.real import cli
from benchmarks.engines.process import serve

async def run(fake, pipe, log):
    async with serve([sys.executable, fake, pipe], environment=os.environ, log=Path(log),
                     ready=lambda: os.path.exists(pipe + ".ready"), start_s=60.0):
        print("up", flush=True)
        await asyncio.Event().wait()

cli._run(run(*sys.argv[1:]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_they_end_when_the_benchmark_is_told_to_end_or_killed(pipe, tmp_path, number):
    arguments = [str(FAKE), str(pipe.path), str(tmp_path / "log")]
    with subprocess.Popen(
        [sys.executable, "-c", BENCHMARK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as benchmark:
        while not pipe.ready():
            pass
        Path(f"{pipe.path}.ready").touch()
        assert benchmark.stdout.readline() == b"up\n"
        benchmark.send_signal(number)
        pipe.wait_for_the_end()
