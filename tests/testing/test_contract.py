"""The contract passes a right adapter, and catches each kind of wrong one by the guarantee it breaks."""

from __future__ import annotations

import inspect
import json
import sys
import unittest
from pathlib import Path
from typing import Any, ClassVar

import pytest

from concur_agents import Outcome
from concur_agents.adapters import AgentRun
from concur_agents.testing import AdapterContract

sys.path.insert(0, str(Path(__file__).parent))  # the contract also runs this file by its path, in another process

from framework import Awaiting, Blocking

GUARANTEES = sorted(name for name, _ in inspect.getmembers(AdapterContract) if name.startswith("test_"))


class TestAwaiting(Awaiting):
    """Passes."""


class TestBlocking(Blocking):
    """Passes, but for what only loops have."""


class Deaf(Awaiting):
    """Never asks Concur."""

    async def generate(self, run: AgentRun, client: Any, talk: Any) -> Any:
        return await client.chat.completions.create(**talk.request(run))


class Anonymous(Awaiting):
    """Does not tell the engine whose request it is."""

    async def generate(self, run: AgentRun, client: Any, talk: Any) -> Any:
        async with run.step():
            return await client.chat.completions.create(**{**talk.request(run), "extra_headers": {}})


class Greedy(Awaiting):
    """One step from beginning to end."""

    async def generate(self, run: AgentRun, client: Any, talk: Any) -> Any:
        await run.resume()
        return await client.chat.completions.create(**talk.request(run))


class Generous(Awaiting):
    """Gives its seat away at each boundary."""

    async def work(self, run: AgentRun, talk: Any) -> list[str]:
        run.park()
        return await super().work(run, talk)


class Restless(Awaiting):
    """Takes a step of its own for each tool."""

    async def work(self, run: AgentRun, talk: Any) -> list[str]:
        async with run.step():
            pass
        return await super().work(run, talk)


class Blind(Awaiting):
    """Observes nothing."""

    async def generate(self, run: AgentRun, client: Any, talk: Any) -> Any:
        async with run.step():
            return await client.chat.completions.create(**talk.request(run))


class NeverEnding(AgentRun):
    def __exit__(self, *_: object) -> None:
        self.pause()

    def __del__(self) -> None:
        pass


class Leaking(Awaiting):
    """Does not finish."""

    begin = NeverEnding


class AlwaysGood(AgentRun):
    def __exit__(self, *how: object) -> None:
        self.finish(Outcome.COMPLETED)
        super().__exit__(*how)  # type: ignore[arg-type]


class Cheerful(Awaiting):
    """Every end is a success."""

    begin = AlwaysGood


class Impolite(Awaiting):
    """Keeps its seat while a person thinks, and is a new agent afterwards."""

    def wait_for_person(self, run: AgentRun) -> None:
        run.agent.step()  # type: ignore[attr-defined]


class Fragile(Awaiting):
    """Takes Concur's failures for the agent's."""

    async def generate(self, run: AgentRun, client: Any, talk: Any) -> Any:
        async with talk.scene.controller.agent(run.agent_id).step() as step:
            reply = await client.chat.completions.create(**talk.request(run))
            step.observe(reply.usage)
            return reply


class Astray(Awaiting):
    """Sends everything to one engine."""

    def route(self, client: Any, scene: Any) -> Any:
        return client


class Alone(Awaiting):
    """Its sub-agents want seats of their own."""

    @staticmethod
    def begin(controller: Any, agent_id: str) -> AgentRun:  # type: ignore[override]
        return AgentRun(controller, agent_id, parent=None)


@pytest.mark.parametrize(
    ("adapter", "guarantee", "message"),
    [
        (Deaf, "test_admits_only_before_a_model_call", "sent a request while it was None"),
        (Anonymous, "test_success", "a request without the id of its agent"),
        (Greedy, "test_pauses_before_the_first_tool_and_not_between_parallel_tools", "while the agent was generating"),
        (Generous, "test_keeps_the_seat_in_tools", "given away in the tool"),
        (Restless, "test_admits_only_before_a_model_call", "for 3 model calls"),
        (Blind, "test_observed_usage_is_the_engines", "observed (0, None, 0)"),
        (Leaking, "test_success", "agents are left"),
        (Leaking, "test_cancelled_in_a_tool", "agents are left"),
        (Cheerful, "test_model_error", "not as {'failed': 1}"),
        (Cheerful, "test_cancelled_while_generating", "not as {'cancelled': 1}"),
        (Astray, "test_requests_go_to_the_agents_engine", "requests to the engine that died"),
        (Fragile, "test_goes_on_without_a_closed_controller", "the controller is closed"),
    ],
)
def test_a_wrong_adapter_is_caught(adapter: type[AdapterContract], guarantee: str, message: str) -> None:
    with pytest.raises(AssertionError) as caught:
        getattr(adapter(), guarantee)()
    assert message in str(caught.value)


def test_a_deadlock_is_a_failure_and_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("play", "performing"):
        monkeypatch.setattr(f"concur_agents.testing.{module}.PATIENCE_S", 0.5)
    with pytest.raises(AssertionError, match="the run hung"):
        Alone().test_sub_agents_share_one_seat()


def test_what_is_not_covered_is_skipped_with_its_reason() -> None:
    class Limited(Deaf):
        not_covered = dict.fromkeys(GUARANTEES, "it has none of that")

    for guarantee in GUARANTEES:
        with pytest.raises(unittest.SkipTest, match="it has none of that"):
            getattr(Limited(), guarantee)()


def test_results_are_recorded_where_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Some(Awaiting):
        title = "some framework"
        packages = ("openai",)
        not_covered: ClassVar = {"test_timeout": "no time"}

    class Bad(Anonymous):
        pass

    monkeypatch.setenv("CONCUR_CONTRACT_RECORD", str(tmp_path / "record.jsonl"))
    Some().test_success()
    with pytest.raises(unittest.SkipTest):
        Some().test_timeout()
    with pytest.raises(AssertionError):
        Bad().test_success()
    lines = [json.loads(line) for line in (tmp_path / "record.jsonl").read_text().splitlines()]
    assert [(line["adapter"], line["result"], line["reason"]) for line in lines] == [
        ("some framework", "held", None),
        ("some framework", "not covered", "no time"),
        ("Bad", "failed", None),
    ]
    assert list(lines[0]["versions"]) == ["openai"]
    assert lines[0]["guarantee"] == "Finished once: success"


def test_contract_itself_cannot_be_run() -> None:
    assert inspect.isabstract(AdapterContract)


def test_every_guarantee_has_a_title_of_one_line() -> None:
    for name in GUARANTEES:
        title = getattr(AdapterContract, name).__doc__
        assert title.endswith(".")
        assert "\n" not in title


@pytest.mark.parametrize(
    ("guarantee", "method"),
    [("test_abandoned_stream", "stream"), ("test_nothing_is_held_while_a_person_thinks", "ask")],
)
def test_what_an_adapter_left_out_and_did_not_explain_is_named(guarantee: str, method: str) -> None:
    class Bare(AdapterContract):
        def run(self, scene: Any) -> None: ...

    with pytest.raises(NotImplementedError, match=rf"implement {method}\(\), or say in not_covered .* {guarantee}"):
        getattr(Bare(), guarantee)()
