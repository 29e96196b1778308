"""The shipped contract, with real agents, LiteLLM and HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar
from unittest.mock import patch

import litellm
import pytest
from minisweagent.agents import interactive
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

from concur_agents.testing import AdapterContract, Scene
from concur_agents_mini_swe_agent import ConcurAgent, concur

pytestmark = [  # LiteLLM's own: of its types, and of what SGLang says beyond OpenAI's API
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
    # It keeps a client for each address, and closes none.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]
litellm.suppress_debug_info = True  # it prints, and the contract reads what a process of its own prints
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done"


class ToolEnvironment(LocalEnvironment):
    """Where every command but the submission is the scene's tool."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.scene = scene

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        if action["command"] == SUBMIT:
            return super().execute(action, cwd)
        return {"output": self.scene.blocking_tool(action["command"]), "returncode": 0, "exception_info": ""}


def model(scene: Scene) -> LitellmModel:
    options = {"api_base": scene.base_url, "api_key": "none", "max_retries": 0}
    return LitellmModel(model_name=f"openai/{scene.model}", model_kwargs=options, cost_tracking="ignore_errors")


def agent(scene: Scene, kind: type[Any] = ConcurAgent, **options: Any) -> Any:
    return kind(
        model(scene),
        ToolEnvironment(scene),
        concur=scene.controller,
        agent_id=scene.agent_id,
        system_template="You fix bugs.",
        instance_template="{{task}}",
        step_limit=scene.max_steps or 0,
        **options,
    )


class TestMiniSweAgent(AdapterContract):
    title = "mini-swe-agent"
    packages = ("mini-swe-agent", "litellm")
    not_covered: ClassVar = {"test_abandoned_stream": "mini-swe-agent does not stream."}
    tool_name = "bash"
    tool_argument = "command"

    def run(self, scene: Scene) -> Any:
        return agent(scene).run(scene.prompt)

    def ask(self, scene: Scene) -> Callable[[], Any]:
        asked, answered = threading.Event(), threading.Event()

        def prompt(*_: Any) -> str:
            asked.set()
            answered.wait()
            return ""  # the return key: yes

        asking = agent(scene, concur(interactive.InteractiveAgent), confirm_exit=False)
        thread = threading.Thread(target=asking.run, args=(scene.prompt,))
        person = patch.object(interactive, "prompt_session", prompt=prompt)  # type: ignore[call-overload]
        person.start()
        thread.start()
        asked.wait()

        def answer() -> None:
            answered.set()
            thread.join()
            person.stop()

        return answer

    def last(self, text: str) -> dict[str, Any]:
        return {"content": text, "tool_calls": [{"name": "bash", "arguments": {"command": SUBMIT}}]}
