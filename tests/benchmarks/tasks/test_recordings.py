"""Recorded agents are read from what real programs write, and played again as they were."""

import gzip
import json
import time
from pathlib import Path

import pytest

from benchmarks.swebench.recordings import MOST_TOOL_S, RecordingError, read_recordings
from benchmarks.swebench.sandbox import SandboxError
from benchmarks.swebench.sandbox.recorded import RecordedSandbox
from benchmarks.swebench.tasks import load_recorded


def usage(prompt, output):
    return {"prompt_tokens": prompt, "completion_tokens": output}


CALL = {"function": {"name": "bash", "arguments": json.dumps({"command": "ls -la"})}}
MESSAGES = {
    "instance_id": "django__django-1",
    "messages": [
        {"role": "system", "content": "You fix bugs."},
        {"role": "user", "content": "Broken."},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [CALL],
            "ts": 10.0,
            "usage": {"prompt_tokens": 20, "completion_tokens": 9},
        },
        {"role": "tool", "content": "total 0", "ts": 10.25},
        {"role": "assistant", "content": "Done.", "ts": 11.0, "usage": usage(35, 4)},
    ],
}
STEPS = {"id": "s1", "prefix": 6, "steps": [{"p": 10, "o": 3, "tool_s": 0.5}, {"p": 20, "o": 2}]}
SWE_AGENT = {
    "environment": "django__django-2",
    "history": [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "A demonstration.", "is_demo": True},
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "Look."},
    ],
    "trajectory": [
        {"response": "Let me look around here.", "action": "ls\n", "observation": "a.py", "execution_time": 0.2},
        {"thought": "Submit.", "action": "submit", "observation": "", "execution_time": 1e6},
    ],
}
DAY = "2026-01-01T00:00:00"
OPENHANDS = [
    {
        "id": 0,
        "source": "agent",
        "action": "system",
        "args": {"content": "You are an agent."},
        "timestamp": "2026-01-01T00:00:00",
    },
    {
        "id": 1,
        "source": "user",
        "action": "message",
        "args": {"content": "Fix it."},
        "timestamp": "2026-01-01T00:00:01",
    },
    {
        "id": 2,
        "source": "agent",
        "action": "run",
        "args": {"command": "ls", "thought": "I look."},
        "tool_call_metadata": {"model_response": {"usage": {"prompt_tokens": 50, "completion_tokens": 12}}},
        "timestamp": "2026-01-01T00:00:05",
    },
    {"id": 3, "source": "agent", "observation": "run", "content": "a.py", "timestamp": "2026-01-01T00:00:05.5"},
    {"id": 4, "source": "agent", "action": "finish", "args": {"thought": "Done."}, "timestamp": "2026-01-01T00:00:09"},
]


@pytest.fixture
def write(tmp_path):
    def write(name, data):
        text = data if isinstance(data, str) else json.dumps(data)
        (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return tmp_path / name

    return write


@pytest.mark.parametrize("name", ["one.traj.json", "one.jsonl", "one.jsonl.gz"])
def test_messages_keep_their_text_tokens_and_times(write, name):
    (found,) = read_recordings(write(name, MESSAGES))
    assert (found.name, found.problem) == ("django__django-1", "You fix bugs.\nBroken.")
    first, last = found.turns
    assert (first.content, first.output_tokens, first.command) == ("I look.", 9, "ls -la")
    assert (first.observation, first.tool_s) == ("total 0", 0.25)
    assert (last.content, last.output_tokens, last.observation) == ("Done.", 4, "")


def test_steps_alone_get_words_of_their_lengths(write):
    (found,) = read_recordings(write("one.jsonl", STEPS))
    first, last = found.turns
    assert (len(found.problem), len(first.content), len(first.observation)) == (4 * 10, 4 * 3, 4 * 7)
    assert (first.output_tokens, first.tool_s, last.output_tokens) == (3, 0.5, 2)
    other = read_recordings(write("two.jsonl", {**STEPS, "id": "s2"}))[0]
    assert other.problem[: 4 * 6] == found.problem[: 4 * 6]  # what sessions share
    assert other.problem[4 * 6 :] != found.problem[4 * 6 :]


def test_swe_agents_trajectories(write):
    (found,) = read_recordings(write("x.traj", SWE_AGENT))
    assert (found.name, found.problem) == ("django__django-2", "You are an agent.\nFix it.")
    first, last = found.turns
    assert (first.command, first.observation, first.tool_s, first.output_tokens) == ("ls", "a.py", 0.2, 6)
    assert last.tool_s == MOST_TOOL_S


def test_openhands_event_logs(write):
    (found,) = read_recordings(write("run-7.json", OPENHANDS))
    assert (found.name, found.problem) == ("run-7", "You are an agent.\nFix it.")
    first, last = found.turns
    assert (first.content, first.command, first.observation) == ("I look.", "ls", "a.py")
    assert (first.output_tokens, first.tool_s, last.content) == (12, 0.5, "Done.")


def test_a_script_calls_a_tool_in_all_but_its_last_reply(write):
    (found,) = read_recordings(write("one.jsonl", MESSAGES))
    first, last = found.script
    assert first["tool_calls"] == [{"name": "bash", "arguments": {"command": "ls -la"}}]
    assert (last["tool_calls"], last["output_tokens"]) == (None, 4)


def test_a_folder_is_read_whole(write, tmp_path):
    write("b.traj", SWE_AGENT)
    write("a.jsonl", f"{json.dumps(MESSAGES)}\n\n{json.dumps(STEPS)}\n")
    (tmp_path / "notes.txt").write_text("no recording")
    assert [found.name for found in read_recordings(tmp_path)] == ["django__django-1", "s1", "django__django-2"]


@pytest.mark.parametrize(
    ("name", "data", "complaint"),
    [
        ("x.jsonl", "{", r"x\.jsonl:1: is no JSON"),
        ("x.jsonl", "3", r"x\.jsonl:1: has none of steps"),
        ("x.json", {"other": 1}, "has none of steps"),
        ("x.jsonl", {"steps": [{"p": 0, "o": 1}]}, r"x\.jsonl:1: steps\.0\.p: "),
        ("x.jsonl", {"messages": [{"role": 3}]}, r"x\.jsonl:1: messages\.0\.role: "),
        ("x.traj", {"trajectory": [{"execution_time": "long"}]}, r"x\.traj: not as such recordings are"),
        ("x.json", [{"source": "agent", "action": "run"}], r"x\.json: not as such recordings are: KeyError"),
        ("x.json", [3], r"x\.json: not as such recordings are"),
        ("x.jsonl", {"id": 1}, r"^\S*x\.jsonl:1: has none of steps, messages"),
        ("x.jsonl", "", "no recording has a generation"),
        ("x.traj", {"trajectory": []}, "no recording has a generation"),
    ],
)
def test_what_is_no_recording_is_told_with_its_place(write, name, data, complaint):
    with pytest.raises(RecordingError, match=complaint):
        read_recordings(write(name, data))


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(RecordingError, match=r"none\.traj: cannot be read"):
        read_recordings(tmp_path / "none.traj")
    with pytest.raises(RecordingError, match="the folder has no file that ends in"):
        read_recordings(tmp_path)
    (tmp_path / "x.jsonl.gz").write_bytes(b"\x1f\x8bbroken")
    with pytest.raises(RecordingError, match=r"x\.jsonl\.gz: cannot be read"):
        read_recordings(tmp_path)


def test_names_become_ids_of_tasks_and_come_once(write):
    (task,) = load_recorded(write("one.jsonl", {**MESSAGES, "instance_id": "a/b c:d"}))
    assert (task.task_id, task.problem, task.test_command) == ("a-b-c-d", "You fix bugs.\nBroken.", "")
    with pytest.raises(RecordingError, match="two recordings are called 's1'"):
        load_recorded(write("two.jsonl", f"{json.dumps(STEPS)}\n{json.dumps(STEPS)}"))


async def test_a_tool_answers_as_it_did_and_takes_as_long(write):
    (found,) = read_recordings(write("one.jsonl", MESSAGES))
    sandbox = RecordedSandbox(found, clock_rate=10.0)
    began = time.monotonic()
    result = await sandbox.run("rm -rf /", timeout=1.0)
    assert time.monotonic() - began >= 0.025
    assert (result.output, result.exit_code, result.seconds) == ("total 0", 0, 0.025)
    await sandbox.run("", timeout=1.0)
    with pytest.raises(SandboxError, match="no more tools"):
        await sandbox.run("", timeout=1.0)
    with pytest.raises(SandboxError, match="no files"):
        await sandbox.read("x", limit=1)
    assert await sandbox.changes(limit=1) == {}
    await sandbox.close()


REAL = Path("../shared/data/traces")


@pytest.mark.skipif(not REAL.exists(), reason="real recordings lie beside the checkout on some machines only")
def test_real_recordings_are_read():
    found = read_recordings(REAL / "mini_swe_agent_deepseek_steps.jsonl")
    assert len(found) > 100
    assert all(turn.output_tokens >= 1 for recording in found for turn in recording.turns)
