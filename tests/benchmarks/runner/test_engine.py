"""Which engine a run gets: its own, one it starts, or one at a URL."""

import stat
import sys
from pathlib import Path

import pytest

from benchmarks.engines.emulated import register
from benchmarks.engines.kinds import Needs
from benchmarks.engines.warden import members
from benchmarks.engines.wire import EngineError, fetch
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.engine import open_engine
from benchmarks.swebench.server import Server

# Takes sglang's arguments and serves the emulator, with the request cap that it was given.
STAND_IN = """#!{python}
import os, sys
arguments = sys.argv[1:]
os.environ["PYTHONPATH"] = {root!r}
command = [{python!r}, "-m", "concur_agents.cli", "emulate", "--preset", "laptop-8b"]
for name in ("--port", "--max-running-requests"):
    if name in arguments:
        command += [name, arguments[arguments.index(name) + 1]]
os.execv({python!r}, command)
"""


@pytest.fixture
def python(tmp_path):
    path = tmp_path / "python"
    path.write_text(STAND_IN.format(python=sys.executable, root=str(Path.cwd())))
    path.chmod(stat.S_IRWXU)
    return path


async def test_the_default_engine_is_the_emulator_with_the_runs_pool(tmp_path):
    async with open_engine(RunConfig(pool_tokens=12_345), tmp_path / "log") as engine:
        assert engine.capacity_tokens == 12_345
    assert members(engine.session) == []


async def test_a_server_is_started_with_what_the_arm_needs_and_ended(python, tmp_path):
    config = RunConfig(engine="launch", server=Server(model="tiny", flags=("--tp", "8")))
    needs = Needs(max_running_requests=8)
    async with open_engine(config, tmp_path / "log", needs, python=python) as engine:
        assert engine.about["flags"][-2:] == ["--max-running-requests", "8"]
        assert engine.kind.name == "sglang"
    assert members(engine.session) == []


async def test_with_a_front_the_engine_is_what_stands_behind_it(tmp_path):
    async with open_engine(RunConfig(), tmp_path / "log") as running:
        config = RunConfig(engine=running.url, characters_per_token=8)
        async with open_engine(config, tmp_path / "log") as seen:
            assert seen.url != running.url
            assert (seen.capacity_tokens, seen.about["characters_per_token"]) == (running.capacity_tokens, 8)
            assert await register(seen, "a", [{"content": "yes"}])
            assert fetch("GET", f"{running.url}/server_info")["emulator"]["scripts"] == 0
        with pytest.raises(EngineError, match=r"front\.log"):
            await seen.check_alive()
        await running.check_alive()


async def test_one_that_runs_already_takes_no_flags(tmp_path):
    async with open_engine(RunConfig(), tmp_path / "log") as running:
        config = RunConfig(engine=f"{running.url}/v1/")
        async with open_engine(config, tmp_path / "log") as same:
            assert (same.url, same.session) == (running.url, None)
        with pytest.raises(EngineError, match="runs already, so no arm can"):
            async with open_engine(config, tmp_path / "log", Needs(max_running_requests=8)):
                pass


async def test_an_unreachable_url_is_named(tmp_path):
    with pytest.raises(EngineError, match=r"no engine answers at http://127\.0\.0\.1:9/"):
        async with open_engine(RunConfig(engine="http://127.0.0.1:9"), tmp_path / "log"):
            pass


async def test_a_vllm_that_also_describes_itself_is_no_sglang(answering):
    """vLLM answers ``/server_info`` where it offers to empty its cache (VLLM_SERVER_DEV_MODE), which is always here."""
    answering.pages = {
        "/server_info": '{"vllm_config": "model=..."}',
        "/version": '{"version": "0.32.0"}',
        "/v1/models": '{"data": [{"id": "m", "max_model_len": 4096}]}',
        "/metrics": 'vllm:cache_config_info{block_size="32",num_gpu_blocks="100"} 1\n',
    }
    url = answering(200, b"")
    async with open_engine(RunConfig(engine=url), Path("log")) as engine:
        assert (engine.kind.name, engine.scheduling["context_length"], engine.capacity_tokens) == ("vllm", 4096, 3200)
