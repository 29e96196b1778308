"""verl's worker, configured by its own files, and what is verl's alone: new weights and interrupted rollouts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy
import pytest

from concur_agents import AgentEvent, AgentEventKind, ConfigError, Controller, FixedWindow, Outcome, shared_controller
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.testing import ScriptedReader

sys.path.insert(0, str(Path(__file__).parent))
import world

ROLLOUT = "actor_rollout_ref.rollout"
SAYS = [("", [("work", '{"text": "first"}')]), ("", [("work", '{"text": "second"}')]), ("done", [])]


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with Emulator(ServiceConfig.preset("laptop", speedup=1000)) as emulator:
        yield emulator.url


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return world.make_tokenizer()


@pytest.fixture(scope="module")
def config() -> Any:
    return world.config_of(f"{ROLLOUT}.name=vllm", f"{ROLLOUT}.response_length=4000")


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(verify=False, timeout=None) as http:
        yield http


@pytest.fixture
def server(engine: str, http: httpx.AsyncClient, tokenizer: Any) -> world.Server:
    return world.Server(engine, http, tokenizer, lambda session, turn: SAYS[turn], lambda request_id: request_id)


@pytest.fixture
def controller() -> Iterator[Controller]:
    controller = Controller(ScriptedReader(), law=FixedWindow(1), background=False)
    yield controller
    controller.close()


async def work(text: str) -> str:
    return f"did {text}"


def ask(text: str = "hello") -> dict[str, Any]:
    return {"raw_prompt": [{"role": "user", "content": text}]}


def tool_loop(client: Any, config: Any, tokenizer: Any, controller: Controller) -> Any:
    kind = world.concur_agents_verl.ConcurToolAgentLoop
    return world.make_loop(kind, client, config, tokenizer, [world.tool_of(work)], concur=controller)


class Weights(world.Server):
    """A server whose weights a trainer replaces before each reply."""

    async def generate(self, **request: Any) -> Any:
        self.weights += 1
        return await super().generate(**request)


# --- the worker and its configuration ---


@pytest.fixture
def model(tmp_path: Path, tokenizer: Any) -> Path:
    """A model's folder without its weights, which an agent loop worker does not read."""
    folder = tmp_path / "model"
    tokenizer.save_pretrained(folder)
    world.transformers.Qwen2Config(
        hidden_size=8, intermediate_size=8, num_attention_heads=1, architectures=["Qwen2ForCausalLM"]
    ).save_pretrained(folder)
    return folder


@pytest.fixture
def worker_config(tmp_path: Path, model: Path) -> Any:
    loops, tools = tmp_path / "loops.yaml", tmp_path / "tools.py"
    loops.write_text(
        "- name: concur_tool_agent\n  _target_: concur_agents_verl.ConcurToolAgentLoop\n  concur:\n    law: fixed:2\n"
    )
    tools.write_text(
        "from verl.tools.function_tool import function_tool\n"
        "@function_tool\n"
        "def work(text: str) -> str:\n"
        '    """Do some work.\n\n    Args:\n        text: What to do.\n    """\n'
        "    return 'did ' + text\n"
    )
    return world.config_of(
        f"actor_rollout_ref.model.path={model}",
        f"{ROLLOUT}.name=sglang",
        f"{ROLLOUT}.prompt_length=1000",
        f"{ROLLOUT}.response_length=2000",
        f"{ROLLOUT}.full_determinism=true",
        f"{ROLLOUT}.agent.default_agent_loop=concur_tool_agent",
        f"{ROLLOUT}.agent.agent_loop_config_path={loops}",
        f"{ROLLOUT}.multi_turn.function_tool_path={tools}",
    )


async def test_a_worker_configured_by_verls_own_files(
    worker_config: Any, server: world.Server, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No code: the loop by name, Concur by its block, the engine from verl's load balancer, one controller for all."""
    monkeypatch.delenv("CONCUR_ENGINE_URL", raising=False)
    made = set()

    def noted(config: Any) -> Controller:
        made.add(shared_controller(config))
        return shared_controller(config)

    monkeypatch.setattr("concur_agents_verl.controllers.shared_controller", noted)
    client = world.client_of(server, worker_config, address=engine.removeprefix("http://"))
    worker = world.agent_loop.AgentLoopWorker(worker_config, client)
    prompts = numpy.empty(5, dtype=object)
    prompts[:] = [ask(f"task {number}")["raw_prompt"] for number in range(5)]
    batch = world.DataProto.from_dict(
        tensors={"dummy": world.torch.zeros(5)},
        non_tensors={"raw_prompt": prompts, "priority": numpy.arange(5)},
    )
    output = await worker.generate_sequences(batch)
    assert output.batch["responses"].shape == (5, 2000)
    (controller,) = made
    stats = controller.stats()
    assert (stats.finished, stats.known) == ({Outcome.COMPLETED: 5}, 0)
    assert stats.window == 2
    controller.tick()
    assert controller.stats().sample is not None, "it does not read the engine that the load balancer named"
    controller.close()


async def test_an_engine_that_cannot_be_found_is_a_clear_error(config: Any, tokenizer: Any) -> None:
    """A client of the user's own has no load balancer to ask."""
    loop = world.make_loop(world.concur_agents_verl.ConcurToolAgentLoop, object(), config, tokenizer, [])
    with pytest.raises(ConfigError, match="CONCUR_ENGINE_URL"):
        await loop.run({}, **ask())


async def test_no_engine_yet_no_control(config: Any, tokenizer: Any, server: world.Server) -> None:
    """While verl has no engine its own client waits for one, or fails: not Concur."""
    client = world.client_of(server, config)
    await client._load_balancer.remove_servers.remote(["engine"])
    loop = world.make_loop(world.concur_agents_verl.ConcurToolAgentLoop, client, config, tokenizer, [])
    with pytest.raises(RuntimeError, match="No available servers"):
        await loop.run({}, **ask())


# --- who the agent is ---


async def test_the_agent_is_named_as_the_requests_are(
    config: Any, tokenizer: Any, server: world.Server, controller: Controller
) -> None:
    """``request_id``, which keeps a rollout at one engine."""
    client = world.client_of(server, config)
    loop = tool_loop(client, config, tokenizer, controller)
    events = controller.events()
    await loop.run({}, **ask())
    events.close()
    (agent_id,) = {event.agent_id for event in events if isinstance(event, AgentEvent)}
    assert list(client._load_balancer._actor._request_id_to_server) == [agent_id]


async def test_a_loop_of_ones_own(config: Any, tokenizer: Any, server: world.Server, controller: Controller) -> None:
    """The decorated class keeps its name, by which verl finds it, and what it does."""

    @world.concur_agents_verl.concur
    class Twice(world.agent_loop.AgentLoopBase):
        """Asks twice, and once outside of any rollout."""

        async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
            prompt = self.tokenizer.encode("hello")
            for name in ("mine", "other"):
                await self.server_manager.generate(name, prompt_ids=prompt, sampling_params=sampling_params)
            return self.server_manager.config is self.config

    assert (Twice.__name__, Twice.__doc__) == ("Twice", "Asks twice, and once outside of any rollout.")
    server._reply = lambda session, turn: ("done", [])
    loop = world.make_loop(Twice, world.client_of(server, config), config, tokenizer, [], concur=controller)
    events = controller.events()
    assert await loop.run({}) is True
    events.close()
    assert [(e.agent_id, e.kind) for e in events if isinstance(e, AgentEvent)] == [
        ("mine", AgentEventKind.ADMITTED),
        ("mine", AgentEventKind.PAUSED),
        ("mine", AgentEventKind.RESUMED),
        ("mine", AgentEventKind.PAUSED),
        ("mine", AgentEventKind.FINISHED),
    ]
    await loop.server_manager.generate("other", prompt_ids=tokenizer.encode("hello"), sampling_params={})
    assert controller.agents() == ()


# --- weights ---


async def test_new_weights_are_no_thrashing(
    config: Any, tokenizer: Any, engine: str, http: httpx.AsyncClient, controller: Controller
) -> None:
    """Cached tokens are not told for a step that found other weights than the one before it."""
    for kind, cached in ((world.Server, True), (Weights, False)):
        server = kind(engine, http, tokenizer, lambda session, turn: SAYS[turn], lambda request_id: request_id)
        loop = tool_loop(world.client_of(server, config), config, tokenizer, controller)
        before = controller.stats()
        controller._limiter.measure(reset=True)
        await loop.run({}, **ask(kind.__name__))
        population, _ = controller._limiter.measure(reset=True)
        assert (population.reuse is not None) is cached
        assert controller.stats().prompt_tokens > before.prompt_tokens


async def test_an_interrupted_generation_that_goes_on_is_one_step(
    config: Any, tokenizer: Any, server: world.Server, controller: Controller
) -> None:
    """Partial rollout: aborted for new weights, and resumed by verl's client after a while; the seat is kept."""
    others: list[asyncio.Future[None]] = []

    def asked(request_id: str) -> str:
        if not others:
            others.append(asyncio.ensure_future(controller.admit("other")))
        return request_id

    server._session_of = asked
    server.interrupt_after = 10
    client = world.client_of(server, config, world.FullyAsyncLLMServerClient)
    events = controller.events()
    output = await tool_loop(client, config, tokenizer, controller).run({}, **ask())
    await others[0]
    controller.finish("other")
    events.close()
    assert tokenizer.decode(output.response_ids).endswith("done<|im_end|>")
    lives = [(e.agent_id == "other", e.kind) for e in events if isinstance(e, AgentEvent)]
    step = [(False, AgentEventKind.RESUMED), (False, AgentEventKind.PAUSED)]
    assert lives == [
        (False, AgentEventKind.ADMITTED),
        (False, AgentEventKind.PAUSED),
        *step,
        *step,
        (False, AgentEventKind.FINISHED),
        (True, AgentEventKind.ADMITTED),
        (True, AgentEventKind.FINISHED),
    ]


async def test_an_interrupted_generation_that_does_not_go_on_ends_the_rollout(
    config: Any, tokenizer: Any, server: world.Server, controller: Controller
) -> None:
    """verl's plain client hands on what there is, and the loop ends with it."""
    server.interrupt_after = 10
    loop = tool_loop(world.client_of(server, config), config, tokenizer, controller)
    output = await loop.run({}, **ask())
    assert len(output.response_ids) == 10
    stats = controller.stats()
    assert (stats.finished, stats.prompt_tokens) == ({Outcome.COMPLETED: 1}, 0)
