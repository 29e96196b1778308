"""``python -m benchmarks.gateway identity``: recorded sessions, played as requests that name nobody."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.gateway.cli import app
from benchmarks.gateway.identity import play, read_sessions


def session(task: str, turns: int, *, says: str = "") -> list[dict[str, Any]]:
    """As mini-swe-agent writes them: commands in the text, and what they said."""
    messages = [{"role": "system", "content": "You fix bugs."}, {"role": "user", "content": task}]
    for turn in range(turns):
        messages += [
            {"role": "assistant", "content": f"Next. {says} {turn}"},
            {"role": "user", "content": f"returned {turn}"},
        ]
    return messages


@pytest.mark.parametrize("seed", range(5))
def test_sessions_of_tasks_of_their_own_are_one_agent_each(seed: int) -> None:
    told = play([session(f"task {number}", 3 + number % 7) for number in range(40)], seed)
    assert (told.agents, told.mistaken, told.split) == (40, 0, 0)
    assert told.requests == sum(3 + number % 7 for number in range(40))


@pytest.mark.parametrize("seed", range(5))
def test_rollouts_of_one_task_are_told_apart_by_what_the_model_said(seed: int) -> None:
    told = play([session("the same", 6, says=f"rollout {number}") for number in range(20)], seed)
    assert (told.agents, told.mistaken, told.split) == (20, 0, 0)


def test_it_tells_what_is_lost_when_nothing_tells_sessions_apart() -> None:
    told = play([session("the same", 6)] * 8)
    assert told.mistaken or told.split  # whose is whose nobody can know


@pytest.mark.parametrize("form", ["lines", "packed", "folder"])
def test_sessions_are_read_from_what_tools_write(tmp_path: Path, form: str) -> None:
    sessions = [session(f"task {number}", 2) for number in range(3)]
    lines = "".join(json.dumps({"id": "x", "messages": each}) + "\n" for each in sessions)
    path = tmp_path / {"lines": "sessions.jsonl", "packed": "sessions.jsonl.gz", "folder": "runs"}[form]
    if form == "lines":
        path.write_text(lines)
    elif form == "packed":
        path.write_bytes(gzip.compress(lines.encode()))
    else:
        for number, each in enumerate(sessions):
            (path / f"task-{number}").mkdir(parents=True)
            (path / f"task-{number}" / "task.traj.json").write_text(json.dumps({"messages": each, "info": {}}))
        (path / "preds.json").write_text("{}")
    assert read_sessions(path) == sessions
    ended = CliRunner().invoke(app, ["identity", str(path)])
    assert ended.exit_code == 0
    assert "3 sessions of 6 requests, 64 at once: 3 agents; 0 requests taken for another session's" in ended.output


def test_what_holds_no_session_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text('{"messages": [{"role": "user", "content": "x"}]}\n')
    ended = CliRunner().invoke(app, ["identity", str(tmp_path / "empty.jsonl")])
    assert ended.exit_code == 2
    assert "holds no conversation" in ended.output
