"""The engine is started, reached and ended, or the error says what to do."""

import asyncio
import os
import signal
import sys

import pytest

from benchmarks.swebench import engine as module
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.engine import Engine, EngineError, open_engine

SERVER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"data": [{"id": "tiny"}]}'
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args): pass
    def do_POST(self):
        self.send_response(%d)
        self.end_headers()
        self.wfile.write(b"as you say")
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print("warming up", flush=True)
print(f"listening on http://127.0.0.1:{server.server_port}/v1", flush=True)
server.serve_forever()
"""


@pytest.fixture
def program(monkeypatch):
    """Runs this Python text in place of the emulator."""

    def use(text):
        monkeypatch.setattr(module, "_command", lambda *given: [sys.executable, "-c", text])

    return use


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_the_embedded_engine_is_found_by_what_it_prints_and_ended_after_use(program, tmp_path):
    program(SERVER % 200)
    async with open_engine(RunConfig(), tmp_path / "log") as engine:
        assert engine.model == "tiny"
        assert engine.cpu_s() >= 0
        await engine.flush()
        assert await engine.register("a", [])
    assert gone(engine.pid)


async def test_the_default_engine_is_the_emulator_with_the_runs_pool(tmp_path):
    async with open_engine(RunConfig(pool_tokens=12_345), tmp_path / "log") as engine:
        assert engine.model == "Qwen/Qwen3-8B-AWQ"
        assert await engine.capacity_tokens() == 12_345
        assert await engine.register("a", [{"content": "x"}])
        await engine.flush()
    assert gone(engine.pid)


async def test_an_unknown_preset_is_quoted(tmp_path):
    with pytest.raises(EngineError, match=r"preset must be one of .*turbo"):
        async with open_engine(RunConfig(preset="turbo"), tmp_path / "log"):
            pass


async def test_the_engine_is_ended_when_its_user_fails(program, tmp_path):
    program(SERVER % 200)
    with pytest.raises(KeyError):
        async with open_engine(RunConfig(), tmp_path / "log") as engine:
            raise KeyError
    assert gone(engine.pid)


async def test_an_engine_that_will_not_end_is_killed(program, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "STOP_TIMEOUT_S", 0.01)
    program("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SERVER % 200)
    async with open_engine(RunConfig(), tmp_path / "log") as engine:
        pass
    assert gone(engine.pid)


async def test_an_engine_that_died_meanwhile_is_no_trouble_at_the_end(program, tmp_path):
    program(SERVER % 200)
    async with open_engine(RunConfig(), tmp_path / "log") as engine:
        os.kill(engine.pid, signal.SIGKILL)


async def test_an_engine_that_died_is_named_as_the_cause(program, tmp_path):
    async def kill_and_use():
        async with open_engine(RunConfig(), tmp_path / "log") as engine:
            os.kill(engine.pid, signal.SIGKILL)
            while engine.cpu_s() is not None:  # noqa: ASYNC110 - until the loop has reaped it
                await asyncio.sleep(0)
            await engine.flush()

    program(SERVER % 200)
    with pytest.raises(EngineError, match="ended in the middle of the run"):
        await kill_and_use()


async def test_an_engine_that_cannot_start_says_its_last_words(program, tmp_path):
    program("import sys; sys.exit('no such preset: turbo')")
    with pytest.raises(EngineError, match="ended at once: no such preset: turbo"):
        async with open_engine(RunConfig(), tmp_path / "log"):
            pass


async def test_an_engine_that_says_nothing_is_given_up(program, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "START_TIMEOUT_S", 0.01)
    program("import time; time.sleep(60)")
    with pytest.raises(EngineError, match="did not start within"):
        async with open_engine(RunConfig(), tmp_path / "log"):
            pass


async def test_an_unreachable_url_is_named(tmp_path):
    config = RunConfig(engine="http://127.0.0.1:9")
    with pytest.raises(EngineError, match=r"no engine answers at http://127\.0\.0\.1:9/v1/models.*Is it running"):
        async with open_engine(config, tmp_path / "log"):
            pass


async def test_a_url_may_end_in_v1(program, tmp_path):
    program(SERVER % 200)
    log = tmp_path / "log"
    async with (
        open_engine(RunConfig(), log) as running,
        open_engine(RunConfig(engine=f"{running.url}/v1/"), log) as same,
    ):
        assert same == Engine(running.url, "tiny", None)
        assert same.cpu_s() is None


async def test_an_engine_that_plays_no_scripts_says_so(program, tmp_path):
    program(SERVER % 404)
    async with open_engine(RunConfig(), tmp_path / "log") as engine:
        assert not await engine.register("a", [])


async def test_an_engine_that_refuses_a_script_is_quoted(program, tmp_path):
    program(SERVER % 400)
    async with open_engine(RunConfig(), tmp_path / "log") as engine:
        with pytest.raises(EngineError, match="answered 400: as you say"):
            await engine.register("a", [])


async def test_an_engine_that_cannot_flush_is_refused(program, tmp_path):
    program(SERVER % 404)
    async with open_engine(RunConfig(), tmp_path / "log") as engine:
        with pytest.raises(EngineError, match="arms would share a cache"):
            await engine.flush()
