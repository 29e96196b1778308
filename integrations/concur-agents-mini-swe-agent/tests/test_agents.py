"""What is mini-swe-agent's own: limits, replies that cannot be read, people, headers, models that are shared."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
from minisweagent.agents import get_agent, interactive
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
from minisweagent.models.test_models import DeterministicModel, make_output

from concur_agents import AgentEvent, Controller, FixedWindow
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.emulator.scripts import ScriptedReply
from concur_agents.testing import ScriptedReader
from concur_agents_mini_swe_agent import ConcurAgent, concur

pytestmark = [
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
]
TEMPLATES = {"system_template": "S", "instance_template": "{{task}}"}
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done"


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator(ServiceConfig.preset("laptop", speedup=1000)) as running:
        yield running


class World:
    def __init__(self, emulator: Emulator) -> None:
        self.controller = Controller(ScriptedReader(), law=FixedWindow(1), background=False)
        self.events = self.controller.events()
        self.scripts = emulator.service.scripts
        options = {"api_base": f"{emulator.url}/v1", "api_key": "none", "max_retries": 0}
        self.options: dict[str, Any] = {"model_name": "openai/m", "cost_tracking": "ignore_errors"}
        self.options["model_kwargs"] = options

    def script(self, agent_id: str, *commands: str | None) -> None:
        """A command is a call of bash; None is a reply that mini-swe-agent cannot read."""
        data = [{"tool_calls": [{"name": "bash", "arguments": {"command": each}}]} if each else {} for each in commands]
        self.scripts.register(agent_id, [ScriptedReply.parse({"content": "x", **each}, "reply") for each in data])

    def agent(self, agent_id: str, kind: Callable[..., Any] = ConcurAgent, **options: Any) -> Any:
        model = options.pop("model", None) or LitellmModel(**self.options)
        return kind(model, LocalEnvironment(), concur=self.controller, agent_id=agent_id, **TEMPLATES, **options)

    def life(self, agent_id: str) -> list[str]:
        self.events.close()
        mine = (each for each in self.events if isinstance(each, AgentEvent) and each.agent_id == agent_id)
        return [str(event.outcome or event.kind) for event in mine]


@pytest.fixture
def world(emulator: Emulator) -> Iterator[World]:
    world = World(emulator)
    with world.controller:
        yield world


def test_a_limit_that_is_reached_waits_for_no_seat(world: World) -> None:
    world.script("a", "true", "true", "true")
    assert world.agent("a", step_limit=2).run("t")["exit_status"] == "LimitsExceeded"
    assert world.life("a") == ["admitted", "paused", "resumed", "paused", "completed"]


def test_a_time_limit_ends_the_agent(world: World) -> None:
    agent = world.agent("a", wall_time_limit_seconds=1)
    agent._start_time -= 2
    assert agent.run("t")["exit_status"] == "TimeExceeded"
    assert world.life("a") == []  # it never asked for a seat
    assert world.controller.agents() == ()


def test_a_reply_that_cannot_be_read_is_a_step_whose_tokens_count(world: World) -> None:
    world.script("a", None, SUBMIT)  # both are turn 0: the framework keeps no assistant message of the first
    agent = world.agent("a", max_consecutive_format_errors=2)
    assert agent.run("t")["exit_status"] == "RepeatedFormatError"
    assert world.life("a") == ["admitted", "paused", "resumed", "paused", "completed"]
    assert world.controller.stats().prompt_tokens > 0


def test_agents_may_share_a_model_at_the_same_time(world: World) -> None:
    model, results = LitellmModel(**world.options), {}
    for name in "abcdef":
        world.script(name, f"echo {name}", f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo {name}")
    threads = [
        threading.Thread(target=lambda name=name: results.update({name: world.agent(name, model=model).run("t")}))
        for name in "abcdef"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: result["submission"].strip() for name, result in results.items()} == {name: name for name in "abcdef"}


def test_the_users_own_header_wins(world: World) -> None:
    world.script("theirs", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo theirs")
    world.options["model_kwargs"]["extra_headers"] = {"X-Session-ID": "theirs"}
    assert world.agent("ours").run("t")["submission"].strip() == "theirs"


def test_a_model_that_knows_no_headers_gets_none(world: World) -> None:
    outputs = [make_output("x", [{"command": SUBMIT}])]
    agent = world.agent("a", model=DeterministicModel(outputs=outputs))
    assert agent.run("t")["submission"] == "done\n"
    assert agent.model.config.outputs == outputs  # what else a model has is still there


def test_outside_of_a_run_nothing_is_admitted(world: World) -> None:
    agent = world.agent("a", model=DeterministicModel(outputs=[make_output("x", [{"command": "true"}])]))
    agent.messages = [{"role": "user", "content": "t"}]
    agent.step()
    assert world.controller.agents() == ()


def test_a_person_may_interrupt_and_go_on(world: World) -> None:
    seated = []

    def prompt(*_: Any) -> str:
        seated.append(world.controller.stats().population.seated)
        return "go on"

    class Interrupted(interactive.InteractiveAgent):
        def execute_actions(self, message: dict[str, Any]) -> list[dict[str, Any]]:
            if self.n_calls == 1:
                raise KeyboardInterrupt
            return super().execute_actions(message)

    agent = world.agent("a", concur(Interrupted), mode="yolo", confirm_exit=False)
    with patch.object(interactive, "prompt_session", prompt=prompt):  # type: ignore[call-overload]
        world.script("a", "true", SUBMIT)
        assert agent.run("t")["exit_status"] == "Submitted"
    assert seated == [0]
    assert world.life("a") == ["admitted", "paused", "parked", "resumed", "paused", "completed"]


def test_the_agent_class_may_be_named_in_a_configuration(world: World, emulator: Emulator) -> None:
    world.script("a", SUBMIT)
    settings = {"engine": emulator.url, "law": "fixed:3", "tick": 3600}
    config = {"agent_class": "concur_agents_mini_swe_agent.ConcurAgent", "concur": settings, "agent_id": "a"}
    agent = get_agent(LitellmModel(**world.options), LocalEnvironment(), {**config, **TEMPLATES})
    assert isinstance(agent, DefaultAgent)
    assert agent.run("t")["exit_status"] == "Submitted"
    assert sum(agent._controller.stats().finished.values()) == 1  # type: ignore[attr-defined]


def test_a_class_keeps_its_name_in_trajectories(world: World) -> None:
    assert concur(interactive.InteractiveAgent).__name__ == "ConcurInteractiveAgent"
    assert world.agent("a").serialize()["info"]["config"]["agent_type"].endswith("ConcurAgent")
