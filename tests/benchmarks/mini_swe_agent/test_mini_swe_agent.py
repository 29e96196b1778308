"""What stands round mini-swe-agent's runner; the runner itself is not needed here."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engines.emulated import register
from benchmarks.engines.engine import connect
from benchmarks.engines.wire import fetch
from benchmarks.front.launch import open_front
from benchmarks.mini_swe_agent.dataset import marker, script_of, write_dataset
from benchmarks.mini_swe_agent.gateway import gateway_arm, law_of, open_gateway, steps_of
from benchmarks.mini_swe_agent.judge import judge
from benchmarks.mini_swe_agent.runner import KINDS
from benchmarks.mini_swe_agent.sandbox import environment
from benchmarks.mini_swe_agent.table import gateways, markdown
from benchmarks.mini_swe_agent.trajectories import patches, read_records
from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.arms import parse_arms
from benchmarks.swebench.edits import Edit
from benchmarks.swebench.records import AgentRecord
from benchmarks.swebench.sandbox import BubblewrapSandboxes
from benchmarks.swebench.tasks import Task
from concur_agents.config import load_config
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.laws import ConcurLaw, FixedWindow, TokenBudget, Uncontrolled


@pytest.fixture
def plan(tmp_path: Path) -> AgentPlan:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a.py").write_text("A = 1\n")
    (workspace / "README.md").write_text("About a.\n")
    packages = tmp_path / "packages"
    packages.mkdir()
    task = Task(
        task_id="a__1",
        package="a",
        problem="A is wrong.\n",
        test_command="python -c 'import a; assert a.A == 2'",
        workspace=workspace,
        packages=packages,
        solution=(Edit(path="a.py", old="A = 1", new="A = 2"),),
    )
    return AgentPlan("001-a__1", task, 7)


def test_the_data_set_is_one_row_an_instance(plan: AgentPlan, tmp_path: Path) -> None:
    other = AgentPlan("002-a__1", plan.task, 8)
    write_dataset([plan, other], tmp_path / "data", tmp_path / "repositories")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["test.jsonl"]
    rows = [json.loads(line) for line in (tmp_path / "data" / "test.jsonl").read_text().splitlines()]
    assert [row["instance_id"] for row in rows] == ["001-a__1", "002-a__1"]
    assert {row["repo_dir"] for row in rows} == {str(tmp_path / "repositories" / "a__1")}
    assert all(marker(each) in row["problem_statement"] for each, row in zip([plan, other], rows, strict=True))
    assert marker(plan) not in rows[1]["problem_statement"]


def test_a_script_really_makes_the_patch_that_it_submits(plan: AgentPlan, tmp_path: Path) -> None:
    write_dataset([plan], tmp_path / "data", tmp_path / "repositories")
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "repositories" / "a__1", copy)
    *_, making, submitting = [reply["tool_calls"][0]["arguments"]["command"] for reply in script_of(plan)]
    (copy / "a.py").write_text("A = 2\n")
    (copy / "b.py").write_text("not of the fix\n")
    for command in (making, submitting):
        said = subprocess.run(["bash", "-c", command], cwd=copy, check=True, capture_output=True, text=True).stdout
    first, patch = said.split("\n", 1)
    assert first == "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    assert ("+A = 2" in patch, "b.py" in patch) == (True, False)


def test_every_reply_of_a_script_calls_the_tool(plan: AgentPlan) -> None:
    assert all(len(reply["tool_calls"]) == 1 and reply["output_tokens"] > 0 for reply in script_of(plan))


def test_the_sandbox_has_no_network_and_sees_what_it_needs(tmp_path: Path) -> None:
    settings = environment(tmp_path / "repos", tmp_path / "packages", timeout_s=60.0)
    arguments = settings["wrapper_args"]
    assert {"--unshare-net", "--unshare-pid", "--cap-drop", "--clearenv", "--die-with-parent"} <= set(arguments)
    bound = {target for option, target in zip(arguments, arguments[2:], strict=False) if option == "--ro-bind"}
    assert {"/usr", str(tmp_path / "repos"), str(tmp_path / "packages")} <= bound
    assert "/" not in bound
    assert settings["env"]["PYTHONPATH"] == str(tmp_path / "packages")


def trajectory(status: str, **info: Any) -> dict[str, Any]:
    def replied(at: float, prompt: int, cached: int, output: int) -> dict[str, Any]:
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        return {"role": "assistant", "extra": {"timestamp": at, "response": {"usage": usage}}}

    return {
        "info": {"exit_status": status, **info},
        "messages": [
            {"role": "system"},
            {"role": "user"},
            replied(102.0, 100, 0, 10),
            {"role": "tool", "extra": {"timestamp": 102.5, "returncode": 1}},
            replied(104.0, 130, 100, 5),
            {"role": "exit", "extra": {"exit_status": status}},
        ],
    }


def leave(out: Path, agent_id: str, data: dict[str, Any]) -> None:
    (out / agent_id).mkdir(parents=True)
    (out / agent_id / f"{agent_id}.traj.json").write_text(json.dumps(data))


def test_a_trajectory_becomes_a_record(plan: AgentPlan, tmp_path: Path) -> None:
    leave(tmp_path / "out", plan.agent_id, trajectory("Submitted"))
    (record,) = read_records(tmp_path / "out", [plan, AgentPlan("002-a__1", plan.task, 8)], 100.0)
    assert (record.agent_id, record.outcome, record.error, record.commands, record.commands_failed) == (
        *(plan.agent_id, "completed", None),
        *(1, 1),
    )
    assert [(step.started_s, step.tool_s) for step in record.steps] == [(2.0, 0.5), (4.0, None)]
    assert record.recomputed_tokens == 10  # of the 110 that were in context, 100 were cached


def test_an_agent_that_did_not_submit_has_failed(plan: AgentPlan, tmp_path: Path) -> None:
    leave(tmp_path / "out", plan.agent_id, trajectory("APIError", exception_str="no engine"))
    (record,) = read_records(tmp_path / "out", [plan], 100.0)
    assert (record.outcome, record.error) == ("failed", "APIError: no engine")


def test_a_batch_that_never_began_has_no_records(plan: AgentPlan, tmp_path: Path) -> None:
    assert read_records(tmp_path, [plan], 100.0) == []
    assert patches(tmp_path) == {}


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("patch", "resolved"),
    [("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-A = 1\n+A = 2\n", True), ("", False), ("no patch\n", None)],
)
async def test_the_patch_is_what_is_judged(
    plan: AgentPlan, tmp_path: Path, *, patch: str, resolved: bool | None
) -> None:
    (tmp_path / "preds.json").write_text(json.dumps({plan.agent_id: {"model_patch": patch}}))
    ended = AgentRecord(agent_id=plan.agent_id, task_id="a__1", seed=7, outcome="completed", started_s=0.0, ended_s=1.0)
    async with BubblewrapSandboxes(packages=plan.task.packages) as sandboxes:
        judged: list[AgentRecord] = []
        await judge([ended], [plan], tmp_path, sandboxes, judged.append)
    (record,) = judged
    assert record.resolved is resolved
    assert (record.error is None) is (resolved is not None)


def test_the_table_says_what_the_record_says() -> None:
    arm = {"makespan_s": 50.04, "hit_rate": 0.5, "recomputed_tokens": 1234, "resolved": 3, "agents": 4, "lost": 0}
    arm |= {"steps": 40, "peak_context_tokens": 300, "capacity_tokens": 200, "speedup": None}
    faster = {**arm, "makespan_s": 25.0, "speedup": {"median": 2.0, "min": 1.9, "max": 2.1}}
    config = {"seed": 0, "preset": "laptop-8b", "speedup": 10.0, "pool_tokens": 200, "repeats": 3}
    versions = {"mini-swe-agent": "2.4.6"}
    arms = {"uncontrolled": arm, "concur": faster}
    text = markdown({"arms": arms, "config": config, "versions": versions, "tasks": ["a"], "cpus": 2})
    assert "| `uncontrolled` | 50.0 | ? | 50% | 1,234 | 3 of 4 | 0 |\n" in text
    assert "| `concur` | 25.0 | 2.00 (1.90..2.10) | 50% | 1,234 | 3 of 4 | 0 |\n" in text
    assert "mini-swe-agent 2.4.6, unmodified: 4 instances" in text
    assert "fill it 1.5 times" in text


def test_the_table_of_a_real_engine_says_what_stood_before_it() -> None:
    arm = {"makespan_s": 50.0, "hit_rate": 0.5, "recomputed_tokens": 1, "resolved": 3, "agents": 4, "lost": 0}
    arm |= {"steps": 40, "peak_context_tokens": 80_000, "capacity_tokens": 16_000, "speedup": None}
    arm |= {"repeats": [{"engine": "SGLang 0.5.23"}]}
    config = {"seed": 0, "repeats": 3, "engine": "launch", "characters_per_token": 16}
    summary = {"arms": {"uncontrolled": arm}, "config": config, "versions": {"mini-swe-agent": "2.4.6"}, "tasks": ["a"]}
    text = markdown({**summary, "cpus": 2})
    assert "SGLang 0.5.23, random weights, behind a front" in text
    assert (
        "a token for every 16 characters; pool 16,000 tokens; at the peak the contexts would fill it 5.0 times" in text
    )
    text = markdown({**summary, "config": {**config, "characters_per_token": 0}, "cpus": 2})
    assert "- SGLang 0.5.23, pool 16,000 tokens; at the peak" in text


LAWS = {
    "uncontrolled": Uncontrolled,
    "budget": TokenBudget,
    "budget:margin=0.1": TokenBudget,
    "fixed:4": FixedWindow,
    "concur:alpha=3,beta=0.4": ConcurLaw,
    "gateway": TokenBudget,
    "gateway:fixed:4": FixedWindow,
    "gateway:concur:alpha=3,beta=0.4": ConcurLaw,
}


def parameters(law: Any) -> dict[str, Any]:
    return {name: getattr(law, name) for kind in type(law).__mro__ for name in getattr(kind, "__slots__", ())}


@pytest.mark.parametrize("name", LAWS)
def test_a_configuration_file_says_the_law_that_an_arm_names(name: str, tmp_path: Path) -> None:
    (arm,) = parse_arms(name, KINDS)
    file = tmp_path / "concur.yaml"
    file.write_text(json.dumps({"law": law_of(name)}))
    law = load_config(file, env={}, engine=False).config.law.build()
    assert type(law) is type(arm.law) is LAWS[name]
    assert parameters(law) == parameters(arm.law)


@pytest.mark.parametrize("name", ["proxy:a.toml", "requests:4", "gateway:gateway", "gateway:fixed", "config:a.yaml"])
def test_an_arm_that_a_runner_of_its_own_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="arm"):
        parse_arms(name, KINDS)


def test_several_gateways_are_several_arms() -> None:
    arms = parse_arms("uncontrolled,gateway,gateway:concur:alpha=3,beta=0.4,gateway:fixed:4", KINDS)
    assert [arm.name for arm in arms] == [
        "uncontrolled",
        "gateway",
        "gateway:concur:alpha=3,beta=0.4",
        "gateway:fixed:4",
    ]
    assert isinstance(gateway_arm("").law, TokenBudget)


def test_steps_are_counted_for_each_agent_of_a_log(tmp_path: Path) -> None:
    events = [
        ("a", "admitted"),
        ("b", "admitted"),
        ("a", "paused"),
        ("a", "parked"),
        ("a", "resumed"),
        ("a", "finished"),
    ]
    lines = [json.dumps({"event": "agent", "agent_id": agent, "kind": kind}) for agent, kind in events]
    (tmp_path / "events.jsonl").write_text("\n".join([json.dumps({"event": "window", "before": 1}), *lines, ""]))
    assert steps_of(tmp_path / "events.jsonl") == [1, 2]
    assert steps_of(tmp_path / "none.jsonl") == []


async def test_a_gateway_knows_conversations_and_says_how_many(tmp_path: Path) -> None:
    config, events = tmp_path / "gateway.yaml", tmp_path / "events.jsonl"
    config.write_text(json.dumps({"law": law_of("gateway:fixed:3"), "logging": {"events": str(events)}}))
    with Emulator(ServiceConfig(speedup=1000)) as engine:
        async with open_gateway(engine.url, config, tmp_path / "gateway.log") as gateway:
            for _ in range(3):
                messages = [{"role": "user", "content": "the same at first"}]
                for _ in range(2):
                    reply = await asyncio.to_thread(
                        fetch, "POST", f"{gateway.url}/v1/chat/completions", {"model": "m", "messages": messages}
                    )
                    messages += [reply["choices"][0]["message"], {"role": "user", "content": "on"}]
            seen = await gateway.seen()
    assert (seen["agents"], seen["expired"]) == (3, 0)
    assert steps_of(events) == [2, 2, 2]


async def test_a_gateway_before_a_front_knows_the_conversations_of_agents_that_name_nobody(
    plan: AgentPlan, tmp_path: Path
) -> None:
    plans = [plan, AgentPlan("002-a__1", plan.task, 8)]
    scripts = {each: script_of(each) for each in plans}
    config, events = tmp_path / "gateway.yaml", tmp_path / "events.jsonl"
    config.write_text(json.dumps({"law": law_of("gateway:fixed:2"), "logging": {"events": str(events)}}))
    with Emulator(ServiceConfig(speedup=1000)) as emulator:
        async with open_front(await connect(emulator.url), tmp_path / "front.log", characters=16) as engine:
            for each in plans:
                assert await register(engine, each.agent_id, scripts[each], match=marker(each))
            async with open_gateway(engine.url, config, tmp_path / "gateway.log") as gateway:
                hits = await asyncio.gather(*(converse(gateway.url, each, len(scripts[each])) for each in plans))
                seen = await gateway.seen()
    assert seen["agents"] == len(plans)
    assert steps_of(events) == sorted(map(len, scripts.values()))
    assert all(cached >= before - 1 for pairs in hits for before, cached in pairs)


async def converse(url: str, plan: AgentPlan, steps: int) -> list[tuple[int, int]]:
    """The context after each step, and of that what the next one found cached."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Fix it.\n{marker(plan)}"}]
    contexts, cached = [], []
    for _ in range(steps):
        body = {"model": "m", "messages": messages}
        reply = await asyncio.to_thread(fetch, "POST", f"{url}/v1/chat/completions", body)
        message = reply["choices"][0]["message"]
        answers = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in message["tool_calls"]]
        messages += [message, *answers]
        usage = reply["usage"]
        contexts.append(usage["total_tokens"])
        cached.append(usage["prompt_tokens_details"]["cached_tokens"])
    return list(zip(contexts[:-1], cached[1:], strict=True))


def test_the_table_says_what_a_gateway_saw() -> None:
    seen = {"agents": 4, "expired": 3, "same_steps": True}
    arms = {"uncontrolled": {"agents": 4}, "gateway": {"agents": 4, "gateway": [seen, {**seen, "same_steps": False}]}}
    first, second = gateways({"arms": arms})
    assert first == (
        "`gateway`: the gateway saw 4 agents (3 taken to have ended by then) for 4 instances, each with as many steps "
        "as one of these has generations."
    )
    assert "not each with" in second
