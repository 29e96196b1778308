"""What mini-swe-agent's runner leaves, as records of the benchmark: trajectories, and its list of predictions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.records import AgentRecord, StepRecord
from concur_agents.usage import TokenUsage

__all__ = ["patches", "read_records"]

SUBMITTED = "Submitted"


def read_records(out: Path, plans: Sequence[AgentPlan], start: float) -> list[AgentRecord]:
    """One record for each agent that has ended.

    Args:
        out: the folder that the runner was told to write to.
        plans: the batch.
        start: when the batch began, in seconds since the epoch.
    """
    found = []
    for plan in plans:
        path = out / plan.agent_id / f"{plan.agent_id}.traj.json"
        if path.exists():
            found.append(_record(plan, json.loads(path.read_text()), start, path.stat().st_mtime - start))
    return found


def patches(out: Path) -> dict[str, str]:
    """What each agent has submitted."""
    path = out / "preds.json"
    predictions = json.loads(path.read_text()) if path.exists() else {}
    return {agent_id: prediction["model_patch"] or "" for agent_id, prediction in predictions.items()}


def _record(plan: AgentPlan, trajectory: Mapping[str, Any], start: float, ended_s: float) -> AgentRecord:
    messages, info = trajectory["messages"], trajectory["info"]
    codes = [code for message in messages if (code := message.get("extra", {}).get("returncode")) is not None]
    status = info.get("exit_status")
    return AgentRecord(
        agent_id=plan.agent_id,
        task_id=plan.task.task_id,
        seed=plan.seed,
        outcome="completed" if status == SUBMITTED else "failed",
        error=None if status == SUBMITTED else f"{status}: {info.get('exception_str', '')}".rstrip(": "),
        commands=len(codes),
        commands_failed=sum(code != 0 for code in codes),
        started_s=0.0,
        ended_s=ended_s,
        steps=tuple(_steps(messages, start)),
    )


def _steps(messages: Sequence[Mapping[str, Any]], start: float) -> Iterator[StepRecord]:
    for number, message in enumerate(messages):
        extra = message.get("extra", {})
        if message.get("role") != "assistant" or "response" not in extra:
            continue
        usage = TokenUsage.of(extra["response"].get("usage"))
        after = messages[number + 1].get("extra", {}).get("timestamp") if number + 1 < len(messages) else None
        yield StepRecord(
            # When the reply was there: a trajectory does not say when it was asked for.
            started_s=extra["timestamp"] - start,
            tool_s=None if after is None else after - extra["timestamp"],
            prompt_tokens=usage.prompt,
            cached_tokens=usage.cached,
            output_tokens=usage.output,
        )
