"""Recordings of one's own: three forms, gzipped or not; and errors that say where."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.lab.batch import Step
from benchmarks.lab.workloads.trace import TraceError, from_trace

SESSION = {"id": "a", "steps": [{"p": 100, "o": 7, "tool_s": 0.5}, {"p": 120, "o": 3, "tool_s": None}], "prefix": 40}


@pytest.fixture
def write(tmp_path):
    """Writes a recording of lines."""

    def write(*lines, name="steps.jsonl"):
        path = tmp_path / name
        text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    return write


def only(path):
    (plan,) = from_trace(path).batch(0).plans
    return plan


@pytest.mark.parametrize("name", ["steps.jsonl", "steps.jsonl.gz", "anything"])
def test_a_session_of_steps_is_an_agent(write, name) -> None:
    plan = only(write(SESSION, "", name=name))
    assert plan.agent_id == "a#0"
    assert list(plan.steps) == [Step(100, 7, 0.5), Step(120, 3, 0.0)]
    assert plan.prefix_tokens == 40


def test_think_time_is_before_its_step_and_of_a_person_at_most_ten_minutes_count(write) -> None:
    steps = [{"p": 10, "o": 1, "think_s": 7.0}, {"p": 12, "o": 1, "think_s": 9}, {"p": 14, "o": 1, "think_s": 80_000.0}]
    assert [step.tool_s for step in only(write({"steps": steps})).steps] == [9.0, 600.0, 0.0]


def test_clocks_set_back_and_empty_replies_are_taken_as_nothing(write) -> None:
    steps = [{"p": 10, "o": 0, "tool_s": -1.1}, {"p": 9, "o": 1}]  # prompts may shrink
    assert list(only(write({"steps": steps})).steps) == [Step(10, 1, 0.0), Step(9, 1, 0.0)]


def test_a_session_ends_where_an_engine_would_not_take_it(write) -> None:
    long = {"id": "b", "steps": [{"p": 50, "o": 10}, {"p": 90, "o": 11}, {"p": 30, "o": 1}]}
    workload = from_trace(write(long, {"steps": [{"p": 101, "o": 1}]}, {"steps": []}), longest=100)
    assert [len(plan.steps) for plan in workload.batch(0).plans] == [1]
    assert workload.about == "1 recorded sessions of steps.jsonl, cut at 100 tokens"


def test_further_agents_repeat_sessions_and_fewer_are_all_different(write) -> None:
    workload = from_trace(write(*({"id": f"s{n}", "steps": [{"p": n + 1, "o": 1}]} for n in range(9))))
    assert workload.agents == 9
    names = [plan.agent_id.split("#")[0] for plan in workload.batch(5).plans]
    assert sorted(names) == [f"s{n}" for n in range(9)]
    assert names != sorted(names)
    assert [plan.agent_id.split("#")[0] for plan in workload.batch(5, 30).plans[:9]] == names
    assert workload.batch(5, 30) == workload.batch(5, 30) != workload.batch(6, 30)


def trajectory(start: str, *, usage: bool = True):
    """What mini-swe-agent 2.4.6 writes: one session, one file."""

    def reply(prompt, output, at):
        said = {"prompt_tokens": prompt, "completion_tokens": output} if usage else None
        return {"role": "assistant", "content": "c" * 40, "extra": {"response": {"usage": said}, "timestamp": at}}

    return {
        "info": {"mini_version": "2.4.6", "exit_status": "Submitted"},
        "messages": [
            {"role": "system", "content": "s" * 100},
            {"role": "user", "content": start * 100},
            reply(90, 8, 10.0),
            {"role": "tool", "content": "t" * 200, "extra": {"returncode": 0, "timestamp": 12.5}},
            reply(160, 9, 20.0),
            {"role": "exit", "content": "", "extra": {"exit_status": "Submitted"}},
        ],
        "trajectory_format": "mini-swe-agent-1.1",
    }


def test_a_folder_of_trajectories_is_read_at_any_depth_and_what_all_begin_with_is_shared(tmp_path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.traj.json").write_text(json.dumps(trajectory(name), indent=2))
    (tmp_path / "preds.json").write_text("not looked at")
    plans = from_trace(tmp_path).batch(0).plans
    assert [list(plan.steps) for plan in plans] == [[Step(90, 8, 2.5), Step(160, 9, 0.0)]] * 2
    assert {plan.prefix_tokens for plan in plans} == {int(90 * 101 / 201)}  # the system's 100 characters, a line's end


def test_without_usage_a_token_is_four_characters(tmp_path) -> None:
    path = tmp_path / "one.traj.json"
    path.write_text(json.dumps(trajectory("u", usage=False)))
    assert list(only(path).steps) == [Step(200 // 4, 40 // 4, 2.5), Step(440 // 4, 40 // 4, 0.0)]


def test_a_session_of_messages_may_be_a_line(write) -> None:
    usage = {"prompt_tokens": 50, "completion_tokens": 5}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "do"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "x"}], "usage": usage, "ts": 100.0},
        {"role": "tool", "content": "ok", "ts": 103.0},
        {"object": "response", "output": [], "usage": {"input_tokens": 60, "output_tokens": 6}, "extra": {}},
    ]
    assert list(only(write({"id": "m", "messages": messages})).steps) == [Step(50, 5, 3.0), Step(60, 6, 0.0)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "is no JSON"),
        ("[1]", "must be an object, is list"),
        ("{}", "has neither 'steps' nor 'messages'"),
        ('{"steps": {}}', r"steps: .* list"),
        ('{"steps": [{"o": 1}]}', r"steps\[0\]\.p: Field required"),
        ('{"steps": [{"p": 1, "o": 1}, {"p": 0, "o": 1}]}', r"steps\[1\]\.p: .*greater than or equal to 1, got 0"),
        ('{"steps": [{"p": 1, "o": -1}]}', r"steps\[0\]\.o: .*, got -1"),
        ('{"steps": [{"p": 1.5, "o": 1}]}', r"steps\[0\]\.p: .*, got 1\.5"),
        ('{"steps": [{"p": true, "o": 1}]}', r"steps\[0\]\.p: .*, got True"),
        ('{"steps": [{"p": 1, "o": 1, "tool_s": NaN}]}', r"steps\[0\]\.tool_s: .*finite"),
        ('{"steps": [{"p": 1, "o": 1, "think_s": "9"}]}', r"steps\[0\]\.think_s: .*, got '9'"),
        ('{"steps": [{"p": 1, "o": 1}], "prefix": -5}', r"prefix: .*, got -5"),
        ('{"messages": ["hello"]}', r"messages\[0\]: "),
        ('{"messages": [{"role": "assistant", "usage": 7}]}', r"messages\[0\]\.usage: .*, got 7"),
        ("[" * 100_000, "is no JSON"),
    ],
    ids=range(15),
)
def test_errors_name_file_line_and_field(write, line, problem) -> None:
    path = write(SESSION, "", line)
    with pytest.raises(TraceError, match=rf"^{path}:3: {problem}"):
        from_trace(path)


def test_a_trajectory_that_is_wrong_is_named(tmp_path) -> None:
    (tmp_path / "x.traj.json").write_text('{"messages": 5}')
    with pytest.raises(TraceError, match=r"x\.traj\.json: messages: .*, got 5"):
        from_trace(tmp_path)


@pytest.mark.parametrize("content", [b"\x1f\x8bnot gzip", gzip.compress(b"{}\n" * 99, mtime=0)[:20], b"\xff\xfe\x00"])
def test_what_cannot_be_read_at_all_is_named(tmp_path, content) -> None:
    path = tmp_path / "bad.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"bad\.jsonl\.gz: cannot be read"):
        from_trace(path)


def test_a_folder_without_recordings_says_what_was_looked_for(tmp_path) -> None:
    with pytest.raises(TraceError, match=r"no file that ends in \.traj\.json, \.jsonl"):
        from_trace(tmp_path)


def test_a_recording_without_steps_is_no_workload(write) -> None:
    with pytest.raises(TraceError, match=r"no session has a step"):
        from_trace(write({"steps": []}))


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
keys = st.sampled_from(
    ["steps", "messages", "prefix", "id", "p", "o", "tool_s", "think_s", "role", "content", "usage", "extra", "ts"]
) | st.text(max_size=3)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5), max_leaves=20
)
steps = st.fixed_dictionaries(
    {"p": st.integers(-2, 200_000), "o": st.integers(-2, 200_000)}, optional={"tool_s": scalars}
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["assistant", "user"])}, optional={"content": values, "extra": values, "ts": scalars}
)
garbage = st.one_of(
    st.binary(max_size=50),
    st.dictionaries(keys, values, max_size=5).map(lambda data: json.dumps(data).encode()),
    st.lists(steps, max_size=4).map(lambda drawn: json.dumps({"steps": drawn}).encode()),
    st.lists(messages, max_size=4).map(lambda drawn: json.dumps({"messages": drawn}).encode()),
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60, deadline=None
)
@given(st.lists(garbage, max_size=3), st.sampled_from(["g.jsonl", "g.traj.json"]))
def test_garbage_is_a_workload_or_a_trace_error_that_names_the_file(tmp_path, lines, name) -> None:
    path = tmp_path / name
    path.write_bytes(b"\n".join(lines))
    workload = problem = None
    try:
        workload = from_trace(path)
    except TraceError as error:
        problem = str(error)
    assert problem.startswith(str(path)) if workload is None else len(workload.batch(0, 5).plans) == 5
