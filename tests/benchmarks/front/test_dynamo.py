"""What is started to have Dynamo's router between front and engine; Dynamo itself is needed for the last test only."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import aiohttp
import pytest

from benchmarks.engines.emulated import register
from benchmarks.front.dynamo import worker
from benchmarks.front.dynamo.__main__ import environment, parts, together
from benchmarks.swebench.arms import parse_arms
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.engine import open_engine
from concur_agents.emulator import Emulator, EngineConfig, ServiceConfig

Handler = Callable[[dict[str, Any], Any], AsyncIterator[dict[str, Any]]]
WITH_DYNAMO = "CONCUR_TEST_DYNAMO"


def test_the_parts_know_each_other() -> None:
    serving, router, frontend = parts(
        Path("python"),
        engine="http://e",
        port=7,
        folder=Path("model"),
        model="words",
        options=["--pause-target", "0.7"],
    )
    assert serving[2:4] == ["http://e", router[router.index("--endpoint") + 1]]
    assert serving[-1] == router[router.index("--router-block-size") + 1]
    assert serving[-2] != router[router.index("--model-name") + 1] == "words"
    assert router[-2:] == ["--pause-target", "0.7"]
    assert frontend[frontend.index("--http-port") + 1] == "7"


def test_nothing_from_outside_configures_dynamo_and_nothing_stays_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DYN_EVENT_PLANE", "nats")
    monkeypatch.setenv("DYN_ROUTER_TEMPERATURE", "2")
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    found = environment(tmp_path)
    assert found["DYN_EVENT_PLANE"] == "zmq"
    assert not {"DYN_ROUTER_TEMPERATURE", "PYTHONPATH"} & set(found)
    assert found["HOME"] == str(tmp_path)
    assert Path(found["DYN_FILE_KV"]).is_relative_to(tmp_path)


async def test_when_one_part_ends_the_others_do() -> None:
    ending, staying = ([sys.executable, "-c", code] for code in ("", "import time; time.sleep(600)"))
    assert await together([staying, ending], os.environ) == 1


async def test_a_worker_says_how_large_the_pool_is_and_streams_what_the_engine_generates(
    monkeypatch: pytest.MonkeyPatch, served: Callable[[str], Awaitable[tuple[Any, Handler, asyncio.Task[None]]]]
) -> None:
    with Emulator(ServiceConfig(engine=EngineConfig(max_total_tokens=1600), speedup=1000)) as engine:
        config, generate, serving = await served(engine.url)
        assert config.total_kv_blocks == 100
        request = {"token_ids": list(range(500, 600)), "stop_conditions": {"max_tokens": 7}}
        outputs = [output async for output in generate(request, SimpleNamespace(is_stopped=lambda: False))]
        assert sum(len(output["token_ids"]) for output in outputs) == 7
        assert outputs[-1]["finish_reason"] == "length"
        usage = outputs[-1]["completion_usage"]
        assert (usage["prompt_tokens"], usage["completion_tokens"], usage["prompt_tokens_details"]) == (
            *(100, 7, {"cached_tokens": 0}),
        )
        with pytest.raises(RuntimeError, match="the engine answered 400"):
            await anext(generate({"token_ids": [500] * 5000}, SimpleNamespace(is_stopped=lambda: False)))
        stopped = generate(request, SimpleNamespace(is_stopped=lambda: True))
        assert [output async for output in stopped] == []
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Awaitable[tuple[Any, Handler, asyncio.Task[None]]]]:
    """Serves an engine as a worker, in a Dynamo that only listens; its configuration, its handler, and the task."""

    async def served(url: str) -> tuple[Any, Handler, asyncio.Task[None]]:
        told: asyncio.Future[Handler] = asyncio.get_running_loop().create_future()
        registered: dict[str, Any] = {}

        async def register_model(*_: Any, **options: Any) -> None:
            registered.update(options)

        async def serve_endpoint(handler: Handler, **_: Any) -> None:
            told.set_result(handler)
            await asyncio.Event().wait()

        llm = ModuleType("dynamo.llm")
        vars(llm).update(
            ModelInput=SimpleNamespace(Tokens="tokens"),
            ModelType=SimpleNamespace(Empty="empty"),
            WorkerType=SimpleNamespace(Aggregated="aggregated"),
            ModelRuntimeConfig=SimpleNamespace,
            register_model=register_model,
        )
        monkeypatch.setitem(sys.modules, "dynamo", ModuleType("dynamo"))
        monkeypatch.setitem(sys.modules, "dynamo.llm", llm)
        monkeypatch.setattr(sys, "argv", ["worker.py", url, "dynamo.backend.generate", "model", "internal", "16"])
        runtime = SimpleNamespace(endpoint=lambda _: SimpleNamespace(serve_endpoint=serve_endpoint))
        serving = asyncio.create_task(worker.serve(runtime))
        handler = await told
        return registered["runtime_config"], handler, serving

    return served


@pytest.mark.skipif(WITH_DYNAMO not in os.environ, reason=f"installs and starts Dynamo: set {WITH_DYNAMO}=1")
async def test_dynamos_router_holds_agents_back_and_forgets_them(tmp_path: Path) -> None:
    (arm,) = parse_arms("proxy:thunderagent")
    assert arm.proxy is not None
    config = ServiceConfig.preset("cpu-sglang", speedup=10)
    with Emulator(config) as emulator:
        run = RunConfig(engine=emulator.url, characters_per_token=4)
        async with open_engine(run, tmp_path / "log", arm.needs) as engine, aiohttp.ClientSession() as client:

            async def agent(name: str) -> None:
                await register(engine, name, [{"content": "x" * 80, "output_tokens": 20}] * 4)
                messages = [{"role": "user", "content": f"{name} " * 2000}]
                headers = {"x-session-id": name, **arm.proxy.headers_of(name)}
                before = 0
                for _ in range(4):
                    body = {"model": "words", "messages": messages}
                    url = f"{engine.url}/v1/chat/completions"
                    async with client.post(url, json=body, headers=headers) as response:
                        reply = await response.json()
                    messages += [reply["choices"][0]["message"], {"role": "user", "content": "more " * 400}]
                    assert reply["usage"]["prompt_tokens"] > before
                    before = reply["usage"]["total_tokens"]
                await arm.proxy.ended(name)

            await asyncio.gather(*(agent(f"agent-{number}") for number in range(8)))
    log = (tmp_path / "proxy.log").read_text()
    assert "scheduler.tick resumed=" in log
    assert "(0 remaining)" in log
