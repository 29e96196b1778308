"""mini-swe-agent and LiteLLM as they are released, pointed at a gateway by ``api_base``: nothing of Concur in them."""

from __future__ import annotations

import contextlib
import json
import sys
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import litellm
import pytest
import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel
from minisweagent.run.utilities import mini_extra

from concur_agents import Controller, FixedWindow
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.emulator.scripts import ScriptedReply
from concur_agents.engines import AnyEngine
from concur_agents.gateway import Gateway, GatewayLimits
from concur_agents.gateway.embed import EmbeddedGateway
from concur_agents.gateway.upstream import Upstream

pytestmark = [  # LiteLLM's own: of its types, of what SGLang says beyond OpenAI's API, of clients that it never closes
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_.*' attribute"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
litellm.suppress_debug_info = True

STEPS = 4
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo "
ITS_OWN = {"id", "created", "timestamp", "tool_call_id"}
TEMPLATES = {"system_template": "You fix bugs. " * 40, "instance_template": "Please solve {{task}}."}
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]


class Served:
    """An engine, and the gateway before it."""

    def __init__(self, engine: Emulator, gateway: EmbeddedGateway) -> None:
        self.engine, self.url = engine, gateway.url
        self.roster = gateway.gateway.roster
        self.controller = gateway.gateway.upstreams[0].controller

    def steps(self) -> list[int]:
        """Of each agent that the gateway has seen."""
        return sorted(self.controller.view(member.agent_id).steps for member in self.roster)


@contextlib.contextmanager
def serve(window: float) -> Iterator[Served]:
    with Emulator(ServiceConfig.preset("laptop", speedup=1000)) as engine:
        upstream = Upstream(engine.url, Controller(AnyEngine(engine.url), law=FixedWindow(window), tick=0.1))
        with EmbeddedGateway(Gateway([upstream], limits=GatewayLimits(park_after=3600))) as gateway:
            yield Served(engine, gateway)


@pytest.fixture
def served() -> Iterator[Served]:
    with serve(1000) as one:
        yield one


@pytest.fixture(scope="module")
def ways() -> Iterator[list[str]]:
    """Two engines that answer alike, the second one behind a gateway: what is cached is the same on both ways."""
    with Emulator(ServiceConfig.preset("laptop", speedup=1000)) as alone, serve(1000) as behind:
        for engine in alone, behind.engine:
            script(engine, "task-a")
        yield [alone.url, behind.url]


@pytest.fixture
def fresh(ways: list[str]) -> list[str]:
    for url in ways:
        urllib.request.urlopen(urllib.request.Request(url + "/flush_cache", method="POST")).close()
    return ways


def script(engine: Emulator, task: str, *, steps: int = STEPS, text: bool = False) -> None:
    """For conversations whose first message of the user has the task's name. ``text``: no call, but a block of text."""
    commands = [f"echo {task} {number}" for number in range(steps - 1)] + [SUBMIT + task]
    replies: list[dict[str, Any]] = [
        {"content": f"Round {number}.", "tool_calls": [{"name": "bash", "arguments": {"command": command}}]}
        for number, command in enumerate(commands)
    ]
    if text:
        replies = [{"content": f"```mswea_bash_command\n{command}\n```"} for command in commands]
    engine.service.scripts.register(task, [ScriptedReply.parse(reply, "reply") for reply in replies], task)


def model(url: str, kind: type[LitellmModel] = LitellmModel) -> LitellmModel:
    kwargs = {"api_base": f"{url}/v1", "api_key": "none"}
    return kind(model_name="openai/m", model_kwargs=kwargs, cost_tracking="ignore_errors")


def agent(url: str, **options: Any) -> DefaultAgent:
    return DefaultAgent(options.pop("model", None) or model(url), LocalEnvironment(), **TEMPLATES, **options)


def kept(value: Any) -> Any:
    """Without what is each reply's own, at any depth."""
    if isinstance(value, dict):
        return {name: kept(each) for name, each in value.items() if name not in ITS_OWN}
    return [kept(each) for each in value] if isinstance(value, list) else value


# --- LiteLLM: what it gets through a gateway is what it gets from the engine ---

ASK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Please solve task-a."}]
CALLS: dict[str, dict[str, Any]] = {
    "whole": {"max_tokens": 50},
    "tools": {"tools": TOOLS},
    "forced": {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "bash"}}},
    "parallel": {"tools": TOOLS, "parallel_tool_calls": True, "drop_params": True},
}


@pytest.mark.parametrize("name", CALLS)
def test_a_reply_is_the_same(fresh: list[str], name: str) -> None:
    options: dict[str, Any] = {"model": "openai/m", "messages": ASK, "api_key": "none", **CALLS[name]}
    direct, through = (
        kept(litellm.completion(api_base=f"{url}/v1", **options).model_dump(warnings=False)) for url in fresh
    )
    assert direct == through
    assert direct["usage"]["prompt_tokens"] > 0


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("usage", [False, True])
async def test_a_stream_says_the_same(fresh: list[str], name: str, usage: bool) -> None:
    options: dict[str, Any] = {"model": "openai/m", "messages": ASK, "api_key": "none", "stream": True, **CALLS[name]}
    if usage:
        options["stream_options"] = {"include_usage": True}
    said = []
    for url in fresh:
        chunks = [chunk async for chunk in await litellm.acompletion(api_base=f"{url}/v1", **options)]
        whole = litellm.stream_chunk_builder(chunks, messages=ASK)
        assert whole is not None
        said.append(kept(whole.model_dump(warnings=False)))
        if not usage:  # then LiteLLM guesses it, by the length of ids that are random
            del said[-1]["usage"]
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (litellm.BadRequestError, {"messages": []}),
        (litellm.BadRequestError, {"max_tokens": 10**9}),
        (litellm.BadRequestError, {"max_tokens": 10**9, "stream": True}),
    ],
)
def test_an_error_of_the_engine_is_the_same_exception(fresh: list[str], kind: Any, options: dict[str, Any]) -> None:
    raised = []
    for url in fresh:
        with pytest.raises(kind) as caught:
            litellm.completion(
                **{"model": "openai/m", "api_base": f"{url}/v1", "api_key": "none", "messages": ASK, **options}
            )
        raised.append((type(caught.value), str(caught.value), caught.value.status_code))
    assert raised[0] == raised[1]


# --- LiteLLM's other APIs ---

SERVED = ServiceConfig.preset("laptop").model  # SGLang's responses API takes no other name
NAMED: dict[str, Any] = {"api_key": "none", "tools": [{**TOOLS[0], **TOOLS[0]["function"]}]}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_is_the_same(fresh: list[str], stream: bool) -> None:
    options: dict[str, Any] = {"model": f"openai/{SERVED}", "input": ASK, "stream": stream, **NAMED}
    said: list[Any] = []
    for url in fresh:
        reply: Any = await litellm.aresponses(api_base=f"{url}/v1", **options)
        if stream:
            events = [event async for event in reply]
            reply = events[-1].response
        said.append([reply.status, reply.usage.input_tokens, [item.type for item in reply.output]])
    assert said[0] == said[1]
    assert said[0][0] == "completed"
    assert said[0][2] == ["message", "function_call"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_message_of_anthropic_s_is_the_same(fresh: list[str], stream: bool) -> None:
    options: dict[str, Any] = {"model": "anthropic/m", "messages": ASK, "api_key": "none", "tools": TOOLS}
    said = []
    for url in fresh:
        reply: Any = await litellm.acompletion(api_base=url, max_tokens=50, stream=stream, **options)
        if stream:
            reply = litellm.stream_chunk_builder([chunk async for chunk in reply], messages=ASK)
        said.append(kept(reply.model_dump(warnings=False)))
    assert said[0] == said[1]
    assert said[0]["choices"][0]["finish_reason"] == "tool_calls"


# --- its agents ---


def test_a_trajectory_is_the_same(fresh: list[str]) -> None:
    said = []
    for url in fresh:
        one = agent(url)
        assert one.run("task-a")["submission"].strip() == "task-a"
        said.append(kept(json.loads(json.dumps(one.messages))))
    assert said[0] == said[1]
    assert len([message for message in said[0] if message["role"] == "assistant"]) == STEPS


def test_an_agent_is_one_agent_over_all_its_steps(served: Served) -> None:
    script(served.engine, "task-a")
    assert agent(served.url).run("task-a")["exit_status"] == "Submitted"
    assert served.steps() == [STEPS]
    assert [member.matched for member in served.roster] == [True]


def test_a_reply_that_cannot_be_read_is_a_step_of_the_same_agent(served: Served) -> None:
    """The framework keeps no message of the model's, and adds what was wrong."""
    served.engine.service.scripts.register("task-a", [ScriptedReply.parse({"content": "no call"}, "reply")], "task-a")
    assert agent(served.url, max_consecutive_format_errors=3).run("task-a")["exit_status"] == "RepeatedFormatError"
    assert served.steps() == [3]


@pytest.mark.parametrize("window", [2, 1000])
@pytest.mark.parametrize("kind", [LitellmModel, LitellmTextbasedModel])
def test_eight_at_once_are_eight(window: float, kind: type[LitellmModel]) -> None:
    """They share one model. Also where only two may go: each submission makes room for another agent."""
    tasks = [f"task-{name}" for name in "abcdefgh"]
    with serve(window) as served:
        for number, task in enumerate(tasks):
            script(served.engine, task, steps=2 + number % 3, text=kind is LitellmTextbasedModel)
        one = model(served.url, kind)
        with ThreadPoolExecutor(8) as pool:
            said = list(pool.map(lambda task: agent(served.url, model=one).run(task)["submission"].strip(), tasks))
        assert said == tasks
        assert served.steps() == sorted(2 + number % 3 for number in range(8))


def test_eight_rollouts_of_one_task_are_eight(served: Served) -> None:
    script(served.engine, "task-r")
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda _: agent(served.url).run("task-r")["submission"].strip(), range(8)))
    assert said == ["task-r"] * 8
    assert served.steps() == [STEPS] * 8


# --- its batch runner ---


@pytest.fixture
def mini(monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """``mini-extra``, in this process."""
    monkeypatch.delitem(sys.modules, "minisweagent.run.benchmarks.swebench", raising=False)

    def run(*arguments: str) -> object:
        monkeypatch.setattr(sys, "argv", ["mini-extra", *arguments])
        with pytest.raises(SystemExit) as ended:
            mini_extra.main()
        return ended.value.code

    return run


@pytest.mark.filterwarnings("ignore")  # of data set libraries, and of what the runner itself leaves behind
def test_a_batch_of_the_runner_is_one_agent_an_instance(tmp_path: Path, mini: Callable[..., object]) -> None:
    names = [f"task-{name}" for name in "abcdef"]
    with serve(2) as served:
        (tmp_path / "data").mkdir()
        rows = [{"instance_id": name, "problem_statement": f"Please solve {name}."} for name in names]
        (tmp_path / "data" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        config = {
            "environment": {"environment_class": "local", "cwd": str(tmp_path)},
            "model": {
                "model_name": "openai/m",
                "cost_tracking": "ignore_errors",
                "model_kwargs": {"api_base": f"{served.url}/v1", "api_key": "none"},
            },
        }
        (tmp_path / "batch.yaml").write_text(yaml.safe_dump(config))
        for name in names:
            script(served.engine, name)
        options = ["--subset", str(tmp_path / "data"), "--split", "test", "-w", "6", "-o", str(tmp_path / "out")]
        status = mini("swebench", *options, "-c", "swebench.yaml", "-c", str(tmp_path / "batch.yaml"))
        assert status in (0, None)
        predictions = json.loads((tmp_path / "out" / "preds.json").read_text())
        assert {name: each["model_patch"].strip() for name, each in predictions.items()} == {
            name: name for name in names
        }
        assert served.steps() == [STEPS] * len(names)
