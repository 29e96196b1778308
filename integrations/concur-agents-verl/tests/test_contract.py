"""The contract, with verl's own loop, client, load balancer, tokenization and tool parser."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from concur_agents.testing import AdapterContract, Scene
from concur_agents.testing.stage import Stage

sys.path.insert(0, str(Path(__file__).parent))  # the contract also loads this file alone, in a process of its own
import world

MULTI_TURN = "actor_rollout_ref.rollout.multi_turn"


@functools.cache
def _config(max_steps: int | None) -> Any:
    limit = "null" if max_steps is None else max_steps
    return world.config_of(
        "actor_rollout_ref.rollout.name=sglang",
        "actor_rollout_ref.rollout.response_length=20000",
        f"{MULTI_TURN}.max_parallel_calls=8",
        f"{MULTI_TURN}.max_assistant_turns={limit}",
    )


@functools.cache
def _tokenizer() -> Any:
    return world.make_tokenizer()


class TestVerl(AdapterContract):
    title = "verl"
    packages = ("verl",)
    not_covered: ClassVar = {
        "test_abandoned_stream": "verl has no streamed rollouts",
        "test_nothing_is_held_while_a_person_thinks": "nobody is asked in a rollout",
        "test_requests_go_to_the_agents_engine": "verl's own load balancer chooses a rollout's engine, and keeps to it",
    }

    @pytest.fixture(autouse=True)
    def _patient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The new process imports verl and torch first: ten seconds of one core."""
        monkeypatch.setattr("concur_agents.testing.exits.PATIENCE_S", 150.0)

    async def run(self, scene: Scene) -> Any:
        config, tokenizer = _config(scene.max_steps), _tokenizer()
        async with httpx.AsyncClient(verify=False, timeout=None) as http:
            server = world.Server(
                scene.base_url.removesuffix("/v1"), http, tokenizer, _scripted, lambda _: scene.agent_id
            )
            loop = world.make_loop(
                world.concur_agents_verl.ConcurToolAgentLoop,
                world.client_of(server, config),
                config,
                tokenizer,
                [world.tool_of(scene.tool)],
                concur=scene.controller,
            )
            loop._make_request_id = lambda *_: scene.agent_id
            return await loop.run({}, raw_prompt=[{"role": "user", "content": scene.prompt}])


def _scripted(session: str, turn: int) -> Any:
    """The contract's scripts, which the engine itself serves to chats only."""
    scripted = Stage.shared()._emulator.service.scripts.reply(session, turn)
    return scripted.reply.content or "", scripted.reply.tool_calls
