"""The shipped contract, with real agents, OpenAI's client and HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, ClassVar

from smolagents import OpenAIModel, ToolCallingAgent, tool

from concur_agents.testing import AdapterContract, Scene
from concur_agents_smolagents import concur


@contextlib.contextmanager
def agent(scene: Scene) -> Iterator[ToolCallingAgent]:
    model = OpenAIModel(scene.model, api_base=scene.base_url, api_key="none", client_kwargs={"max_retries": 0})
    work = scene.blocking_tool
    work.__annotations__ = {"text": str, "return": str}
    limit = {} if scene.max_steps is None else {"max_steps": scene.max_steps}
    made = ToolCallingAgent([tool(work)], model, verbosity_level=0, **limit)
    with model.client:  # else its connections are closed when they are collected, whenever that is
        yield concur(made, scene.controller, agent_id=scene.agent_id)


class TestSmolagents(AdapterContract):
    title = "smolagents"
    packages = ("smolagents", "openai")
    not_covered: ClassVar = {"test_nothing_is_held_while_a_person_thinks": "smolagents asks nobody."}

    def run(self, scene: Scene) -> Any:
        with agent(scene) as ready:
            return ready.run(scene.prompt)

    def stream(self, scene: Scene) -> Iterator[Any]:
        with agent(scene) as ready:
            yield from ready.run(scene.prompt, stream=True)

    def last(self, text: str) -> dict[str, Any]:
        return {"tool_calls": [{"name": "final_answer", "arguments": {"answer": text}}]}
