"""Agents of AgentScope without anything of Concur's, pointed at a gateway by ``base_url``: each is one agent."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from agentscope.model import OpenAIChatModel

from concur_agents import Controller, FixedWindow
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.emulator.scripts import ScriptedReply
from concur_agents.engines import AnyEngine
from concur_agents.gateway import Gateway, GatewayLimits
from concur_agents.gateway.embed import EmbeddedGateway
from concur_agents.gateway.upstream import Upstream
from concur_agents_agentscope._installed import AGENTSCOPE_2

if AGENTSCOPE_2:
    from agentscope.agent import Agent
    from agentscope.credential import OpenAICredential
    from agentscope.message import UserMsg
    from agentscope.permission import PermissionBehavior, PermissionDecision
    from agentscope.tool import FunctionTool, Toolkit
else:
    from agentscope.agent import ReActAgent
    from agentscope.formatter import OpenAIChatFormatter
    from agentscope.memory import InMemoryMemory
    from agentscope.message import Msg, TextBlock
    from agentscope.tool import Toolkit, ToolResponse

STEPS = 4
SYSTEM = "You fix bugs. " * 40
ITS_OWN = {"id", "created", "created_at", "finished_at", "timestamp", "time", "call_id", "tool_call_id"}
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "work",
            "description": "Work.",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
        },
    }
]


async def work(text: str) -> Any:
    """Do some work.

    Args:
        text (str): what to do
    """
    said = f"{text} said something. " * 20
    return said if AGENTSCOPE_2 else ToolResponse(content=[TextBlock(type="text", text=said)])


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
def _ways() -> Iterator[list[str]]:
    with Emulator(ServiceConfig.preset("laptop", speedup=1000)) as alone, serve(1000) as behind:
        for engine in alone, behind.engine:
            script(engine, "task-a")
        yield [alone.url, behind.url]


@pytest.fixture
def ways(_ways: list[str]) -> list[str]:
    """Two engines that answer alike, the second one behind a gateway: what is cached is the same on both ways."""
    for url in _ways:
        urllib.request.urlopen(urllib.request.Request(url + "/flush_cache", method="POST")).close()
    return _ways


def script(engine: Emulator, task: str, *, steps: int = STEPS) -> None:
    """For conversations whose first message of the user has the task's name: nobody says another."""
    calls = [[{"name": "work", "arguments": {"text": f"{task} {number}"}}] for number in range(steps - 1)]
    replies: list[dict[str, Any]] = [{"content": "On.", "tool_calls": call} for call in calls]
    replies.append({"content": f"Done with {task}."})
    engine.service.scripts.register(task, [ScriptedReply.parse(reply, "reply") for reply in replies], task)


@pytest.fixture
async def make_model() -> AsyncIterator[Callable[..., OpenAIChatModel]]:
    async with contextlib.AsyncExitStack() as stack:

        def make(url: str, *, stream: bool = True) -> OpenAIChatModel:
            if AGENTSCOPE_2:
                credential = OpenAICredential(api_key="none", base_url=url + "/v1")
                model = OpenAIChatModel(credential=credential, model="m", stream=stream)
            else:
                model = OpenAIChatModel("m", api_key="none", client_kwargs={"base_url": url + "/v1"}, stream=stream)
            stack.push_async_callback(model.client.close)
            return model

        yield make


def make_agent(model: OpenAIChatModel) -> Any:
    if AGENTSCOPE_2:
        allowed = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="ok")
        toolkit = Toolkit(tools=[FunctionTool(work, is_concurrency_safe=True, permission=allowed)])
        return Agent(name="friday", system_prompt=SYSTEM, model=model, toolkit=toolkit)
    toolkit = Toolkit()
    toolkit.register_tool_function(work)
    agent = ReActAgent(
        name="friday",
        sys_prompt=SYSTEM,
        model=model,
        formatter=OpenAIChatFormatter(),
        toolkit=toolkit,
        memory=InMemoryMemory(),
    )
    agent.set_console_output_enabled(False)
    return agent


async def solve(agent: Any, task: str) -> Any:
    text = f"Please solve {task}."
    if AGENTSCOPE_2:
        return (await agent.reply(UserMsg(name="user", content=text))).get_text_content()
    return (await agent(Msg("user", text, "user"))).get_text_content()


def kept(value: Any) -> Any:
    """Without what is each reply's own, at any depth."""
    if isinstance(value, dict):
        return {name: kept(each) for name, each in value.items() if name not in ITS_OWN}
    return [kept(each) for each in value] if isinstance(value, list) else value


async def asked(model: OpenAIChatModel, choice: str | None) -> Any:
    """The last of what its chat model makes of a reply."""
    if AGENTSCOPE_2:
        from agentscope.message import SystemMsg
        from agentscope.tool import ToolChoice

        messages: Any = [SystemMsg(name="system", content=SYSTEM), UserMsg(name="user", content="Please solve task-a.")]
        picked: Any = None if choice is None else ToolChoice(mode=choice)
    else:
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Please solve task-a."}]
        picked = choice
    reply: Any = await model(messages, tools=TOOLS, tool_choice=picked)
    if inspect.isasyncgen(reply):
        reply = [each async for each in reply][-1]
    return kept(json.loads(json.dumps(reply, default=vars)))


@pytest.mark.parametrize("choice", [None, "auto", "work"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_is_the_same(ways: list[str], make_model: Any, stream: bool, choice: str | None) -> None:
    direct, through = [await asked(make_model(url, stream=stream), choice) for url in ways]
    assert direct == through
    assert "task-a 0" in json.dumps(direct)
    assert direct["usage"]["output_tokens"] > 0


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_is_one_agent_over_all_its_steps(served: Served, make_model: Any, stream: bool) -> None:
    script(served.engine, "task-a")
    assert await solve(make_agent(make_model(served.url, stream=stream)), "task-a") == "Done with task-a."
    assert served.steps() == [STEPS]
    assert [member.matched for member in served.roster] == [True]


async def test_an_agent_that_is_asked_again_is_the_same_agent(served: Served, make_model: Any) -> None:
    script(served.engine, "task-a", steps=3)
    agent = make_agent(make_model(served.url))
    await solve(agent, "task-a")
    await solve(agent, "something else")
    assert served.steps() == [4]


@pytest.mark.parametrize("window", [2, 1000])
@pytest.mark.parametrize("stream", [False, True])
async def test_eight_at_once_are_eight(make_model: Any, window: float, stream: bool) -> None:
    """Also where only two may go: each last answer makes room for another agent."""
    tasks = [f"task-{name}" for name in "abcdefgh"]
    with serve(window) as served:
        for number, task in enumerate(tasks):
            script(served.engine, task, steps=2 + number % 3)
        agents = [make_agent(make_model(served.url, stream=stream)) for _ in tasks]
        said = await asyncio.gather(*(solve(agent, task) for agent, task in zip(agents, tasks, strict=True)))
        assert said == [f"Done with {task}." for task in tasks]
        assert served.steps() == sorted(2 + number % 3 for number in range(8))


@pytest.mark.parametrize("stream", [False, True])
async def test_eight_rollouts_of_one_task_are_eight(served: Served, make_model: Any, stream: bool) -> None:
    script(served.engine, "task-r")
    agents = [make_agent(make_model(served.url, stream=stream)) for _ in range(8)]
    said = await asyncio.gather(*(solve(agent, "task-r") for agent in agents))
    assert said == ["Done with task-r."] * 8
    assert served.steps() == [STEPS] * 8
