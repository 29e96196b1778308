"""The emulator as an engine: started, played scripts, and ended; or the error says what to do."""

import os
import signal

import pytest

from benchmarks.engines.emulated import EMULATED_NAME, embedded, emulated, register
from benchmarks.engines.warden import members
from benchmarks.engines.wire import EngineError, call
from concur_agents.emulator import CostModel

COST = CostModel(prefill_token_s=1e-4, decode_base_s=0.01)


def start(tmp_path, *, preset="laptop-8b", more=()):
    return embedded(preset=preset, pool_tokens=12_345, speedup=50.0, log=tmp_path / "log", more=more)


async def test_it_describes_itself_and_is_gone_afterwards(tmp_path):
    async with start(tmp_path) as engine:
        assert (engine.name, engine.model, engine.speedup) == (EMULATED_NAME, "Qwen/Qwen3-8B-AWQ", 50.0)
        assert engine.capacity_tokens == 12_345
        assert engine.cpu_s() > 0
        assert await register(engine, "a", [{"content": "x"}])
        await engine.flush()
    assert members(engine.session) == []


async def test_it_takes_flags_of_an_arm(tmp_path):
    async with start(tmp_path, more=("--max-running-requests", "3", "--host-cache", "1.5")) as engine:
        assert '"max_running_requests":3' in call("GET", f"{engine.url}/server_info")[1].replace(" ", "")


async def test_an_unknown_preset_is_quoted(tmp_path):
    with pytest.raises(EngineError, match=r"preset must be one of .*turbo"):
        async with start(tmp_path, preset="turbo"):
            pass


async def test_it_is_ended_when_its_user_fails(tmp_path):
    with pytest.raises(KeyError):
        async with start(tmp_path) as engine:
            raise KeyError
    assert members(engine.session) == []


async def test_one_that_died_is_named_as_the_cause(tmp_path):
    async def kill_and_use():
        async with start(tmp_path) as engine:
            for pid in members(engine.session):
                os.kill(pid, signal.SIGKILL)
            while members(engine.session):
                pass
            await engine.flush()

    with pytest.raises(EngineError, match="the server ended with exit code"):
        await kill_and_use()


async def test_one_that_plays_no_scripts_says_so_and_one_that_refuses_is_quoted():
    async with emulated({"max_total_tokens": 1000}, COST) as engine:
        with pytest.raises(EngineError, match="answered 4"):
            await register(engine, "", [])
