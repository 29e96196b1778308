import difflib
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.swebench import fetch
from benchmarks.swebench.edits import Edit
from benchmarks.swebench.sandbox import BubblewrapSandboxes
from benchmarks.swebench.solver import SolverConfig, scripted_replies
from benchmarks.swebench.tasks import Task, load_tasks

NEVER = SolverConfig(gives_up=0)
ALWAYS = SolverConfig(gives_up=1)


@pytest.fixture
def task(project, monkeypatch: pytest.MonkeyPatch) -> Task:
    monkeypatch.setattr(fetch, "pip_settings", lambda: {"no-index": "true"})
    (task,) = load_tasks(project.cache, specs=project.specs)
    return task


@pytest.mark.sandbox
async def test_agents_really_resolve_the_task_unless_they_give_up(task: Task) -> None:
    async with BubblewrapSandboxes(packages=task.packages) as sandboxes:
        for gives_up, resolved in ((0, True), (1, False)):
            config = SolverConfig(min_steps=7, max_steps=7, gives_up=gives_up)
            sandbox = await sandboxes.open(task.workspace)
            codes = [
                (await sandbox.run(call["arguments"]["command"], timeout=60)).exit_code
                for reply in scripted_replies(task, seed=3, config=config)
                for call in reply["tool_calls"] or ()
            ]
            assert set(codes) == {0}
            assert ((await sandbox.run(task.test_command, timeout=60)).exit_code == 0) is resolved


@pytest.mark.sandbox
async def test_a_fix_that_is_a_patch_is_made_as_well(task: Task) -> None:
    before = (task.workspace / "adder.py").read_text()
    after = before.replace("a - b", "a + b").replace("a * 3", "a * 2")
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), "a/adder.py", "b/adder.py")
    patched = replace(task, solution=(), patch="".join(lines), official=object())
    async with BubblewrapSandboxes(packages=task.packages) as sandboxes:
        sandbox = await sandboxes.open(task.workspace)
        replies = scripted_replies(patched, seed=3, config=SolverConfig(min_steps=20, max_steps=20, gives_up=0))
        for reply in replies:
            for call in reply["tool_calls"] or ():
                result = await sandbox.run(call["arguments"]["command"], timeout=60)
                assert result.exit_code == 0, (call, result)
        assert (await sandbox.run(task.test_command, timeout=60)).exit_code == 0
    assert len(replies) == 20


def test_the_same_seed_gives_the_same_replies_and_another_seed_others(task: Task) -> None:
    assert scripted_replies(task, seed=1) == scripted_replies(task, seed=1)
    assert scripted_replies(task, seed=1) != scripted_replies(task, seed=2)


def test_replies_have_the_form_that_the_engine_takes(task: Task) -> None:
    replies = scripted_replies(task, seed=5)
    for reply in replies:
        assert set(reply) == {"content", "tool_calls", "output_tokens"}
        assert isinstance(reply["content"], str)
        assert reply["output_tokens"] >= 1
    assert replies[-1]["tool_calls"] is None
    assert all([call["name"] for call in reply["tool_calls"]] == ["bash"] for reply in replies[:-1])


def test_agents_differ_in_length_within_the_bounds(task: Task) -> None:
    lengths = {len(scripted_replies(task, seed=seed)) for seed in range(300)}
    assert lengths == set(range(6, 21))


def test_output_follows_the_configured_distribution(task: Task) -> None:
    tokens = sorted(reply["output_tokens"] for seed in range(300) for reply in scripted_replies(task, seed=seed))
    assert 70 <= statistics.median(tokens) <= 150  # a command's own text lifts it above the 89 that are drawn
    assert 500 <= tokens[len(tokens) * 9 // 10] <= 900
    assert tokens[-1] <= 3504 + 100


def test_about_one_in_ten_gives_up(task: Task) -> None:
    given_up = sum(not fixes(scripted_replies(task, seed=seed)) for seed in range(1000))
    assert 70 <= given_up <= 130


def test_the_fix_is_in_the_commands_once_for_each_file(task: Task) -> None:
    assert len(fixes(scripted_replies(task, seed=1, config=NEVER))) == 1
    assert fixes(scripted_replies(task, seed=1, config=ALWAYS)) == []


def fixes(replies: list) -> list[str]:
    commands = [reply["tool_calls"][0]["arguments"]["command"] for reply in replies[:-1]]
    return [command for command in commands if "END_OF_EDIT" in command]


@pytest.mark.sandbox
async def test_a_new_file_and_awkward_text_survive_the_shell(task: Task, tmp_path: Path) -> None:
    awkward = "END_OF_EDIT\n$HOME `id` \\ 'q' \"qq\" é\r\n\ttab\n'''\n"
    (tmp_path / "old.py").write_bytes(("first\n" + awkward).encode())
    solution = (
        Edit(path="made/new.py", old="", new=awkward),
        Edit(path="old.py", old=awkward, new=awkward + awkward),
    )
    changed = Task(**{name: getattr(task, name) for name in Task.__slots__} | {"solution": solution})
    changed = Task(**{name: getattr(changed, name) for name in Task.__slots__} | {"workspace": tmp_path})
    async with BubblewrapSandboxes() as sandboxes:
        sandbox = await sandboxes.open(tmp_path)
        for command in fixes(scripted_replies(changed, seed=0, config=NEVER)):
            result = await sandbox.run(command, timeout=60)
            assert result.exit_code == 0, result.output
        assert await sandbox.read("made/new.py", limit=1000) == awkward.encode()
        assert await sandbox.read("old.py", limit=1000) == ("first\n" + awkward + awkward).encode()


@pytest.mark.parametrize(
    ("field", "value"),
    [("min_steps", 4), ("max_steps", 5), ("median_output_tokens", 0), ("max_output_tokens", 100), ("gives_up", 1.5)],
)
def test_a_config_out_of_range_names_field_and_value(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field}.*{value}"):
        SolverConfig(**{field: value})
