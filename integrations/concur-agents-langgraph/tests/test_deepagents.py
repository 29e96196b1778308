"""deepagents: its helpers, with their own middleware or by the model they share, and its own model calls."""

from __future__ import annotations

from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain_core.tools import tool

from concur_agents import Outcome
from concur_agents_langgraph import ConcurMiddleware, wrap, wrap_model

HELLO: Any = {"messages": [("user", "hello")]}
WHOLE = ["admitted", "paused", "completed"]


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def delegate(helper: str) -> Any:
    return ("task", {"description": "look", "subagent_type": helper})


def parents(world: Any) -> dict[str, str | None]:
    return {agent.agent_id: agent.parent for agent in world.controller.agents()}


async def test_helpers_with_their_own_middleware_are_sub_agents(
    world: Any, engine: Any, model: Any, model_for: Any
) -> None:
    seen: list[dict[str, Any]] = []

    @tool
    async def look(text: str) -> str:
        """Look around."""
        seen.append(parents(world))
        return text

    engine.script("sub", [("look", {"text": "hi"})], "sub done")
    spec = {"name": "sub", "description": "d", "system_prompt": "s", "tools": [look], "model": model_for("sub")}
    sub_concur = ConcurMiddleware(world.controller, session_header=None)
    concur = ConcurMiddleware(world.controller)
    boss = create_deep_agent(
        model=model, tools=[look], middleware=[concur], subagents=[{**spec, "middleware": [sub_concur]}]
    )
    engine.script("boss", [delegate("sub"), delegate("sub")], [("look", {"text": "are they gone?"})], "done")
    result = await wrap(boss, world.controller).ainvoke(HELLO, on("boss"))
    assert result["messages"][-1].content == "done"
    assert [sorted(map(str, each.values())) for each in seen] == [["None", "boss", "boss"]] * 2 + [["None"]]
    lives = world.lives()
    assert lives.pop("boss") == ["admitted", "paused", "resumed", "paused", "resumed", "paused", "completed"]
    assert list(lives.values()) == [["admitted", "paused", "resumed", "paused", "completed"]] * 2


async def test_helpers_without_their_own_middleware_go_unseen(world: Any, engine: Any, model: Any) -> None:
    """They run inside the boss's tool, on its seat. README: give them the middleware, or the model."""
    boss = create_deep_agent(model=model, middleware=[ConcurMiddleware(world.controller)])
    engine.script("boss", [delegate("general-purpose")], "done")
    await wrap(boss, world.controller).ainvoke(HELLO, on("boss"))
    assert world.lives() == {"boss": ["admitted", "paused", "resumed", "paused", "completed"]}


async def test_wrapped_model_makes_every_helper_an_agent(world: Any, engine: Any, model: Any) -> None:
    """The built-in one, one of the user's, and one that is a graph of its own, side by side on the boss's seat."""
    model = wrap_model(model, world.controller)
    spec = {"name": "mine", "description": "d", "system_prompt": "s"}
    compiled = {"name": "graph", "description": "d", "runnable": create_agent(model)}
    boss = wrap(create_deep_agent(model=model, subagents=[spec, compiled]), world.controller)
    helpers = ["general-purpose", "mine", "graph"]
    engine.script("boss", [delegate(each) for each in helpers], "done")
    result = await boss.ainvoke(HELLO, on("boss"))
    assert result["messages"][-1].content == "done"
    lives = world.lives()
    assert lives.pop("boss") == ["admitted", "paused", "resumed", "paused", "completed"]
    assert list(lives.values()) == [WHOLE] * 3
    assert all(name.startswith("boss/tools:") for name in lives)
    assert world.finished == {Outcome.COMPLETED: 4}


async def test_helper_run_by_a_sync_boss(world: Any, engine: Any, model: Any) -> None:
    boss = wrap(create_deep_agent(model=wrap_model(model, world.controller)), world.controller)
    engine.script("boss", [delegate("general-purpose")], "done")
    boss.invoke(HELLO, on("boss"))
    assert world.finished == {Outcome.COMPLETED: 2}


@pytest.mark.parametrize("wrapped", [True, False])
async def test_summariser_takes_a_step_of_its_own_with_a_wrapped_model(
    world: Any, engine: Any, model: Any, wrapped: bool
) -> None:
    """The built-in one works outside of any middleware of the user's; with the middleware alone it goes unseen."""
    model.profile = {"max_input_tokens": 20_000}
    options: Any = {"middleware": [ConcurMiddleware(world.controller)]}
    options |= {"model": wrap_model(model, world.controller) if wrapped else model}
    engine.script("t", "first", "second")
    history = [("user", "word " * 1000)] * 17
    await wrap(create_deep_agent(**options), world.controller).ainvoke({"messages": history}, on("t"))
    steps = ["admitted", "paused", "resumed", "paused"] if wrapped else ["admitted", "paused"]
    assert world.lives() == {"t": [*steps, "completed"]}
