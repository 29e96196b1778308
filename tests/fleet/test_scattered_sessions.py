"""A router behind one address that spreads an agent's requests over replicas, with real agents and HTTP."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from concur_agents import Controller, ProblemEvent, Reason
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.engines import SGLang

REPLICAS = 3
SECONDS = 60.0


@pytest.fixture
def replicas() -> Iterator[list[str]]:
    config = ServiceConfig.preset("laptop", speedup=20)
    emulators = [Emulator(replace(config, seed=seed)) for seed in range(REPLICAS)]
    for each in emulators:
        each.__enter__()
    yield [each.url for each in emulators]
    for each in emulators:
        each.__exit__(None, None, None)


@pytest.fixture
def router(replicas: list[str]) -> Iterator[str]:
    """As SGLang's model gateway with ``--policy round_robin``: all workers' metrics at ``/engine_metrics``."""
    turns = itertools.cycle(replicas)

    async def generate(request: Request) -> Response:
        async with httpx.AsyncClient(trust_env=False, timeout=SECONDS) as http:
            answer = await http.post(f"{next(turns)}/generate", content=await request.body())
        return Response(answer.content, answer.status_code, media_type="application/json")

    async def metrics(_: Request) -> Response:
        async with httpx.AsyncClient(trust_env=False, timeout=SECONDS) as http:
            pages = [(await http.get(f"{url}/metrics")).text for url in replicas]
        samples = [
            re.sub(r"^(\w[\w:]*)\{", rf'\1{{worker_addr="{url}",', line)
            for url, page in zip(replicas, pages, strict=True)
            for line in page.splitlines()
            if not line.startswith("#")
        ]
        return Response("\n".join(samples) + "\n", media_type="text/plain")

    app = Starlette(
        routes=[Route("/generate", generate, methods=["POST"]), Route("/engine_metrics", metrics, methods=["GET"])]
    )
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()
    listener.close()


async def work(concur: Controller, http: httpx.AsyncClient, name: str, done: asyncio.Event) -> None:
    """An agent whose context grows by a half with each step, for as long as nobody has noticed."""
    for life in itertools.count():
        if done.is_set():
            return
        async with concur.agent(f"{name}-{life}") as agent:
            ids = random.Random(agent.agent_id).choices(range(30_000), k=100)
            for _ in range(6):
                async with agent.step() as step:
                    body = {"input_ids": ids, "sampling_params": {"max_new_tokens": 4, "ignore_eos": True}}
                    reply = (await http.post("/generate", json=body)).raise_for_status().json()
                    step.observe(reply["meta_info"])
                ids = [*ids, *range(len(ids) // 2)]


async def test_a_router_that_scatters_sessions_is_told_and_no_cut_follows(router: str) -> None:
    concur = Controller(SGLang(router), tick=0.5)
    events = concur.events()
    done = asyncio.Event()
    async with concur, httpx.AsyncClient(base_url=router, trust_env=False, timeout=SECONDS) as http:

        async def watch() -> None:
            async for event in events:
                if isinstance(event, ProblemEvent) and "router" in str(event.problem):
                    done.set()
                    return

        async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
            group.create_task(watch())
            for number in range(4):
                group.create_task(work(concur, http, f"agent{number}", done))
        stats = concur.stats()
        assert stats.cached_tokens is not None
        assert stats.cached_tokens < 0.6 * stats.prompt_tokens, "it did scatter"
        assert not [change for change in concur.history() if change.reason is Reason.CUT]
