"""Agents of LangChain as their users write them, pointed at a gateway by base_url alone: each is one agent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from concur_agents.emulator.scripts import ScriptedReply
from concur_agents.samples import AgentState

STEPS = 5
SYSTEM = "You fix bugs. " * 40


@tool
def bash(command: str) -> str:
    """Run a command."""
    return f"{command} said something. " * 20


def script(engine: Any, task: str, *, steps: int = STEPS, calls: int = 1) -> None:
    """Some rounds with tools, and an answer: for conversations whose first message of the user has the task's name."""
    replies: list[dict[str, Any]] = [
        {
            "content": f"Round {number}.",
            "tool_calls": [
                {"name": "bash", "arguments": {"command": f"{task} {number} {call}"}} for call in range(calls)
            ],
        }
        for number in range(steps - 1)
    ]
    replies.append({"content": f"Done with {task}."})
    engine.service.scripts.register(task, [ScriptedReply.parse(reply, "reply") for reply in replies], task)


class Setting:
    """One engine behind a gateway, and chat models that know its address and nothing else."""

    def __init__(self, engine: Any, served: Any, http: Any, ahttp: Any) -> None:
        self.engine, self.served = engine, served
        self._clients: dict[str, Any] = {"http_client": http, "http_async_client": ahttp}

    def agent(self, *, middleware: Any = (), checkpointer: Any = None, **model: Any) -> Any:
        chat = ChatOpenAI(model="m", base_url=self.served.url + "/v1", api_key="none", **self._clients, **model)
        return create_agent(chat, [bash], system_prompt=SYSTEM, middleware=middleware, checkpointer=checkpointer)

    def steps(self) -> list[int]:
        """Of each agent that the gateway has seen."""
        views = [self.served.controller.view(member.agent_id) for member in self.served.gateway.roster]
        return sorted(view.steps for view in views)

    def over(self) -> bool:
        return all(member.open == 0 for member in self.served.gateway.roster)


def asked(task: str) -> Any:
    return {"messages": [{"role": "user", "content": f"Please solve {task}."}]}


def answer(result: Any) -> Any:
    return result["messages"][-1].content


@pytest.fixture
def window() -> float:
    return 1000


@pytest.fixture(scope="module")
def make_served(wire: Any) -> Iterator[Any]:
    """One engine, and a gateway before it for each window and time until who is idle makes room."""
    made: dict[tuple[float, float], Any] = {}
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(wire.emulator())

        def make(window: float, park_after: float = 0.2) -> Any:
            key = window, park_after
            if key not in made:
                made[key] = stack.enter_context(wire.serve(engine.url, window=window, park_after=park_after))
            for member in list(made[key].gateway.roster):
                httpx.delete(f"{made[key].url}/concur/v1/agents/{member.agent_id}")
            return engine, made[key]

        yield make


@pytest.fixture
async def setting(make_served: Any, window: float) -> AsyncIterator[Setting]:
    async with openai.DefaultAsyncHttpxClient(verify=False) as ahttp:
        with openai.DefaultHttpxClient(verify=False) as http:
            yield Setting(*make_served(window), http, ahttp)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("way", ["invoke", "ainvoke", "stream", "astream"])
async def test_an_agent_is_one_agent_over_all_its_steps(setting: Setting, way: str, streaming: bool) -> None:
    script(setting.engine, "task-a")
    agent = setting.agent(streaming=streaming)
    if way == "invoke":
        said = answer(await asyncio.to_thread(agent.invoke, asked("task-a")))
    elif way == "ainvoke":
        said = answer(await agent.ainvoke(asked("task-a")))
    elif way == "stream":
        said = list(agent.stream(asked("task-a"), stream_mode="values"))[-1]["messages"][-1].content
    else:
        pieces = [piece async for piece, _ in agent.astream(asked("task-a"), stream_mode="messages")]
        said = "".join(piece.content for piece in pieces if piece.type != "tool")
    assert said.endswith("Done with task-a.")
    assert setting.steps() == [STEPS]
    assert [member.matched for member in setting.served.gateway.roster] == [True]


@pytest.mark.parametrize("streaming", [False, True])
async def test_parallel_calls_are_within_one_step(setting: Setting, streaming: bool) -> None:
    script(setting.engine, "task-p", calls=3)
    result = await setting.agent(streaming=streaming).ainvoke(asked("task-p"))
    assert len([message for message in result["messages"] if message.type == "tool"]) == 3 * (STEPS - 1)
    assert setting.steps() == [STEPS]


@pytest.mark.parametrize("window", [1000, 2])
@pytest.mark.parametrize("streaming", [False, True])
async def test_eight_at_once_are_eight(setting: Setting, streaming: bool) -> None:
    """Also where only two may go: each of the others waits for one to end."""
    tasks = [f"task-{name}" for name in "abcdefgh"]
    for number, task in enumerate(tasks):
        script(setting.engine, task, steps=2 + number % 3)
    agent = setting.agent(streaming=streaming)
    results = await asyncio.gather(*(agent.ainvoke(asked(task)) for task in tasks))
    assert [answer(result) for result in results] == [f"Done with {task}." for task in tasks]
    assert setting.steps() == sorted(2 + number % 3 for number in range(8))


@pytest.mark.parametrize("streaming", [False, True])
async def test_eight_rollouts_of_one_task_are_eight(setting: Setting, streaming: bool) -> None:
    """They say the same at first, and each has its own calls afterwards."""
    script(setting.engine, "task-r", steps=4)
    agent = setting.agent(streaming=streaming)
    results = await asyncio.gather(*(agent.ainvoke(asked("task-r")) for _ in range(8)))
    assert {answer(result) for result in results} == {"Done with task-r."}
    assert setting.steps() == [4] * 8


async def test_eight_at_once_in_threads_are_eight(setting: Setting) -> None:
    tasks = [f"task-{name}" for name in "abcdefgh"]
    for task in tasks:
        script(setting.engine, task, steps=3)
    agent = setting.agent()
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda task: answer(agent.invoke(asked(task))), tasks))
    assert said == [f"Done with {task}." for task in tasks]
    assert setting.steps() == [3] * 8


async def test_a_thread_that_is_gone_on_with_is_the_same_agent(setting: Setting) -> None:
    script(setting.engine, "task-t", steps=3)
    agent = setting.agent(checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "t"}}
    await agent.ainvoke(asked("task-t"), thread)
    await agent.ainvoke({"messages": [{"role": "user", "content": "And now?"}]}, thread)
    assert setting.steps() == [4]


async def test_a_history_that_its_middleware_edits_is_the_same_agent_s(setting: Setting) -> None:
    """Old outputs of tools are cut before each call of the model."""
    script(setting.engine, "task-e", steps=8)
    middleware = [ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=100, keep=1)])]
    result = await setting.agent(middleware=middleware).ainvoke(asked("task-e"))
    assert answer(result) == "Done with task-e."
    assert setting.steps() == [8]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_run_that_breaks_off_leaves_no_request_behind(setting: Setting, wire: Any, cancelled: bool) -> None:
    script(setting.engine, "task-x", steps=50)
    agent = setting.agent(streaming=True)
    if cancelled:
        task = asyncio.create_task(agent.ainvoke(asked("task-x")))
        await asyncio.to_thread(wire.until, lambda: len(setting.served.gateway.roster) == 1)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    else:
        async for _ in agent.astream(asked("task-x"), stream_mode="messages"):
            break
    await asyncio.to_thread(wire.until, setting.over)
    assert len(setting.served.gateway.roster) == 1


# --- agents that call their tools by text: each of their replies looks like their last ---

TOOL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}


def ask(served: Any, agent: str, task: str = "task-w", *, rounds: int = 0) -> None:
    messages = [{"role": "user", "content": f"Please solve {task}."}, *[{"role": "assistant", "content": "x"}] * rounds]
    body = {"model": "m", "messages": messages, "tools": [TOOL]}
    httpx.post(served.url + "/v1/chat/completions", json=body, headers={"X-Session-ID": agent}).raise_for_status()


def test_who_came_back_after_what_looked_like_its_last_reply_keeps_its_seat(make_served: Any, wire: Any) -> None:
    engine, served = make_served(1, park_after=3600)
    script(engine, "task-w", steps=1)
    for _ in range(2):
        ask(served, "writes-calls")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, served, "other")
        wire.until(lambda: served.controller.stats().population.waiting == 1)
        for _ in range(3):
            served.gateway.roster.sweep()
        assert served.controller.view("writes-calls").state is AgentState.IN_TOOL
        assert served.controller.stats().population.waiting == 1
        httpx.delete(served.url + "/concur/v1/agents/writes-calls")
        waiting.result()


@pytest.mark.parametrize("times", [1, 3])
def test_who_says_what_ends_its_task_makes_room_whatever_it_said_before(make_served: Any, times: int) -> None:
    engine, served = make_served(1, park_after=3600)
    script(engine, "task-w", steps=1)
    submission = ScriptedReply.parse({"content": "```\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```"}, "reply")
    engine.service.scripts.register("task-m", [submission], "task-m")
    for _ in range(times):
        ask(served, "a")
    ask(served, "a", "task-m")
    ask(served, "b")
    assert served.controller.view("a").state is AgentState.PARKED


def test_who_called_tools_and_then_none_makes_room(make_served: Any) -> None:
    engine, served = make_served(1, park_after=3600)
    script(engine, "task-w", steps=2)
    for agent in "abc":
        ask(served, agent)
        ask(served, agent, rounds=1)
    assert [served.controller.view(agent).state for agent in "ab"] == [AgentState.PARKED] * 2


def test_who_never_called_a_tool_keeps_its_seat(make_served: Any) -> None:
    engine, served = make_served(1, park_after=3600)
    script(engine, "task-w", steps=1)
    ask(served, "writes-calls")
    served.gateway.roster.sweep()
    assert served.controller.view("writes-calls").state is AgentState.IN_TOOL
