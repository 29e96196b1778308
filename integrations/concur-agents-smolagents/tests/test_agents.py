"""What is smolagents' own: code agents, managed agents, plans, streams, interrupts, models that agents share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from smolagents import (
    AgentError,
    AgentGenerationError,
    ChatMessageStreamDelta,
    CodeAgent,
    FinalAnswerStep,
    Model,
    OpenAIModel,
    ToolCallingAgent,
    tool,
)

from concur_agents import AgentEvent, Controller, FixedWindow
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.emulator.scripts import ScriptedReply
from concur_agents.testing import ScriptedReader
from concur_agents_smolagents import concur


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(ServiceConfig.preset("laptop", speedup=1000)) as running:
        yield running


class World:
    """One seat; ``look`` tells how many agents the tool saw in it."""

    def __init__(self, emulator: Emulator) -> None:
        self.controller = Controller(ScriptedReader(), law=FixedWindow(1), background=False)
        self.events = self.controller.events()
        self.scripts = emulator.service.scripts
        self.url = f"{emulator.url}/v1"
        self.seen: list[list[str]] = []
        self.clients = contextlib.ExitStack()

    def script(self, agent_id: str, *replies: str | tuple[str, dict[str, Any]]) -> None:
        """Text, or a call of a tool."""
        data = [
            {"content": each} if isinstance(each, str) else {"tool_calls": [{"name": each[0], "arguments": each[1]}]}
            for each in replies
        ]
        self.scripts.register(agent_id, [ScriptedReply.parse(each, "reply") for each in data])

    def model(self, **options: Any) -> OpenAIModel:
        client = {"max_retries": 0, **options.pop("client_kwargs", {})}
        model = OpenAIModel("m", api_base=self.url, api_key="none", client_kwargs=client, **options)
        self.clients.enter_context(model.client)
        return model

    def agent(self, kind: Callable[..., Any] = ToolCallingAgent, **options: Any) -> Any:
        @tool
        def look() -> str:
            """Look around."""
            self.seen.append(sorted(f"{each.agent_id} {each.state}" for each in self.controller.agents()))
            return "seen"

        return kind([look], options.pop("model", None) or self.model(), verbosity_level=0, **options)

    def lives(self) -> dict[str, list[str]]:
        self.events.close()
        lives: dict[str, list[str]] = {}
        for each in self.events:
            if isinstance(each, AgentEvent):
                lives.setdefault(each.agent_id, []).append(str(each.outcome or each.kind))
        return lives


@pytest.fixture
def world(emulator: Emulator) -> Iterator[World]:
    world = World(emulator)
    with world.controller, world.clients:
        yield world


END = ("final_answer", {"answer": "end"})
STEP = ["admitted", "paused"]
AGAIN = ["resumed", "paused"]


def test_it_stays_the_same_object_of_its_own_class(world: World) -> None:
    agent = world.agent()
    assert concur(agent, world.controller) is agent
    assert type(agent).__name__ == "ToolCallingAgent"
    assert isinstance(agent, ToolCallingAgent)
    assert isinstance(agent.model, OpenAIModel)
    with pytest.raises(ValueError, match="under Concur's control already"):
        concur(agent, world.controller)


def test_a_code_agents_tools_are_in_no_step(world: World) -> None:
    world.script("a", "<code>look()</code>", "<code>final_answer('end')</code>")
    agent = concur(world.agent(CodeAgent), world.controller, agent_id="a")
    assert agent.run("go") == "end"
    assert world.seen == [["a in_tool"]]
    assert world.lives() == {"a": [*STEP, *AGAIN, "completed"]}


@pytest.mark.parametrize("kind", [ToolCallingAgent, CodeAgent])
def test_managed_agents_share_their_managers_seat(world: World, kind: Any) -> None:
    model = world.model()  # all share it
    helper = concur(world.agent(model=model, name="helper", description="Helps."), world.controller, agent_id="helper")
    manager = concur(world.agent(kind, model=model, managed_agents=[helper]), world.controller, agent_id="manager")
    world.script("helper", ("look", {}), END)
    if kind is CodeAgent:  # which runs code in a thread that knows nothing of its caller
        world.script("manager", "<code>helper(task='help')</code>", "<code>final_answer('end')</code>")
    else:
        world.script("manager", ("helper", {"task": "help"}), END)
    assert manager.run("go") == "end"
    assert world.seen == [["helper in_tool", "manager in_tool"]]
    assert world.lives() == {
        "manager": [*STEP, *AGAIN, "completed"],
        "helper": [*STEP, *AGAIN, "completed"],
    }


def test_one_managed_agent_may_be_called_twice_at_a_time(world: World) -> None:
    headers = {"extra_headers": {"X-Session-ID": "helper"}}  # so that both runs find their replies
    helper = concur(
        world.agent(model=world.model(**headers), name="helper", description="Helps."), world.controller, agent_id="h"
    )
    manager = concur(world.agent(managed_agents=[helper]), world.controller, agent_id="manager")
    world.script("helper", END)
    call = {"name": "helper", "arguments": {"task": "help"}}
    replies = [{"tool_calls": [call, call]}, {"tool_calls": [{"name": END[0], "arguments": END[1]}]}]
    world.scripts.register("manager", [ScriptedReply.parse(reply, "reply") for reply in replies])
    assert manager.run("go") == "end"
    lives = world.lives()
    assert len(lives) == 3 or lives.pop("h").count("completed") == 2  # the one may end before the other begins
    assert all(life[-1] == "completed" and "admitted" in life for life in lives.values())
    assert world.controller.agents() == ()


def test_managed_agents_come_under_control_with_their_manager(world: World) -> None:
    helper = world.agent(name="helper", description="Helps.")
    concur(world.agent(managed_agents=[helper]), world.controller)
    world.script(helper.concur_id, END)
    assert helper.run("alone") == "end"
    assert world.lives() == {helper.concur_id: [*STEP, "completed"]}


def test_a_plan_is_a_step_and_so_is_the_last_answer(world: World) -> None:
    world.script("a", "The plan.", ("look", {}), "The answer.")
    agent = concur(world.agent(planning_interval=5), world.controller, agent_id="a")
    assert agent.run("go", max_steps=1) == "The answer."
    assert world.lives()["a"] == [*STEP, *AGAIN, *AGAIN, "completed"]


def test_who_reads_a_stream_is_not_inside_the_agent(world: World) -> None:
    world.script("a", ("look", {}), END)
    steps = concur(world.agent(), world.controller, agent_id="a").run("go", stream=True)
    next(steps)
    assert world.controller.sync.agent("b").parent is None
    assert [step.output for step in steps if isinstance(step, FinalAnswerStep)] == ["end"]
    assert world.lives() == {"a": [*STEP, *AGAIN, "completed"]}


def test_a_stream_that_never_began_is_no_agent(world: World) -> None:
    concur(world.agent(), world.controller, agent_id="a").run("go", stream=True).close()
    assert world.lives() == {}


def test_streamed_replies_are_steps_and_their_tokens_count(world: World) -> None:
    world.script("a", ("look", {}), END)
    agent = concur(world.agent(stream_outputs=True), world.controller, agent_id="a")
    deltas = [each for each in agent.run("go", stream=True) if isinstance(each, ChatMessageStreamDelta)]
    assert deltas
    assert world.seen == [["a in_tool"]]
    stats = world.controller.stats()
    assert (stats.prompt_tokens > 0, stats.cached_tokens) == (True, None)  # their streams do not say cached ones
    assert world.lives() == {"a": [*STEP, *AGAIN, "completed"]}


def test_a_stream_closed_in_the_middle_of_a_reply_is_cancelled(world: World) -> None:
    world.script("a", "Words, and more words. " * 50)
    agent = concur(world.agent(stream_outputs=True), world.controller, agent_id="a")
    steps = agent.run("go", stream=True)
    assert isinstance(next(steps), ChatMessageStreamDelta)
    steps.close()
    assert world.lives() == {"a": ["admitted", "cancelled"]}
    assert world.controller.stats().population.seated == 0


def test_an_interrupted_agent_is_cancelled(world: World) -> None:
    world.script("a", ("look", {}), END)
    agent = world.agent(step_callbacks=[lambda step, agent: agent.interrupt()])
    with pytest.raises(AgentError, match="interrupted"):
        concur(agent, world.controller, agent_id="a").run("go")
    assert world.lives() == {"a": [*STEP, "cancelled"]}


def test_a_model_that_fails_ends_the_agent(world: World) -> None:
    class Broken(Model):
        def generate(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("no model")

    with pytest.raises(AgentGenerationError, match="no model"):
        concur(world.agent(model=Broken()), world.controller, agent_id="a").run("go")
    assert world.lives() == {"a": [*STEP, "failed"]}


@pytest.mark.parametrize("where", ["client", "request"])
def test_the_users_own_header_wins(world: World, where: str) -> None:
    header = {"X-Session-ID": "theirs"}
    model = world.model(
        **({"client_kwargs": {"default_headers": header}} if where == "client" else {"extra_headers": header})
    )
    world.script("theirs", END)
    assert concur(world.agent(model=model), world.controller, agent_id="ours").run("go", max_steps=2) == "end"


def test_the_model_given_is_left_as_it_was(world: World) -> None:
    model = world.model()
    world.script("a", END)
    concur(world.agent(model=model), world.controller, agent_id="a").run("go")
    before = len(world.controller.agents())
    model.generate([{"role": "user", "content": [{"type": "text", "text": "hello"}]}])
    assert (before, world.lives()) == (0, {"a": [*STEP, "completed"]})


def test_an_agent_may_be_given_another_ones_model(world: World) -> None:
    first = concur(world.agent(), world.controller, agent_id="a")
    second = concur(world.agent(model=first.model), world.controller, agent_id="b")
    for name in "ab":
        world.script(name, ("look", {}), END)
    assert (first.run("go"), second.run("go")) == ("end", "end")
    assert world.lives() == {name: [*STEP, *AGAIN, "completed"] for name in "ab"}


def test_calls_of_the_model_in_a_tool_are_not_steps(world: World) -> None:
    model = world.model()

    @tool
    def ask() -> str:
        """Ask the model."""
        return str(model.generate([{"role": "user", "content": [{"type": "text", "text": "hello"}]}]).role)

    world.script("a", ("ask", {}), END)
    agent = concur(ToolCallingAgent([ask], model, verbosity_level=0), world.controller, agent_id="a")
    assert agent.run("go") == "end"
    assert world.lives() == {"a": [*STEP, *AGAIN, "completed"]}
