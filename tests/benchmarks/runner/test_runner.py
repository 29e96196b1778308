"""The batch goes through every arm alike, and whatever happens leaves records."""

import asyncio
import contextlib
import errno
import io
import itertools
import os
from typing import ClassVar

import pytest

from benchmarks.engines.wire import EngineError
from benchmarks.swebench import runner
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.planning import plan_agents
from benchmarks.swebench.records import ArmFolder, RecordError, RunFolder
from benchmarks.swebench.runner import run_arms
from benchmarks.swebench.setting import Setting
from concur_agents.testing import ScriptedReader

FIX = [
    {"content": "", "tool_calls": [{"name": "bash", "arguments": {"command": "fix"}}], "output_tokens": 5},
    {"content": "Done.", "tool_calls": [], "output_tokens": 2},
]


class Engine:
    url = "http://nowhere"
    name = "an engine"
    about: ClassVar = {}
    capacity_tokens = 1000
    dead = False

    def cpu_s(self):
        return None

    def reader(self):
        return ScriptedReader()

    async def check_alive(self):
        if self.dead:
            raise EngineError("gone")


class Quiet:
    """A Progress that remembers what it was told."""

    def __init__(self):
        self.told = []

    def preparing(self, arm, repeat):
        self.told.append(("preparing", arm, repeat))

    def sampled(self, arm, point):
        pass

    def judging(self, arm):
        self.told.append(("judging", arm))

    def finished(self, arm, repeat, figures):
        self.told.append(("finished", arm, repeat, figures.resolved))


@pytest.fixture
def plans_for(make_task):
    tasks = [make_task("a"), make_task("b"), make_task("c")]
    return lambda config: plan_agents(config, tasks)


@pytest.fixture
def batch(tmp_path, monkeypatch, plans_for, fake_model, fake_sandbox):
    """Runs a batch with fakes in place of engine and sandboxes: ``await batch(config, sandbox=..., model=...)``."""

    async def run(config, *, sandbox=lambda plan: fake_sandbox(), judges=fake_sandbox, model=None, progress=None):
        @contextlib.asynccontextmanager
        async def open_setting(config, engine, plans, sandboxes, proxy):
            sandboxes = {plan: sandbox(plan) for plan in plans}
            yield Setting(engine, model or fake_model(), sandboxes, dict.fromkeys(plans, FIX))

        monkeypatch.setattr(runner, "open_setting", open_setting)
        monkeypatch.setattr(runner, "BubblewrapSandboxes", lambda packages: contextlib.nullcontext(Sandboxes()))
        monkeypatch.setattr(runner, "open_engine", lambda *args, **more: contextlib.nullcontext(Engine()))

        class Sandboxes:
            async def open(self, workspace, changes):
                assert changes == {"state.txt": b"fixed\n"}
                return judges()

        if not (tmp_path / "run").exists():
            RunFolder.create(tmp_path / "run", {"config": config.to_json()})
        folder = RunFolder.open(tmp_path / "run")
        await run_arms(config, plans_for(config), folder, progress or Quiet())
        return folder

    return run


def test_the_same_seed_is_the_same_work(plans_for):
    assert plans_for(RunConfig(seed=3)) == plans_for(RunConfig(seed=3))


def test_another_seed_is_other_work(plans_for):
    first, second = plans_for(RunConfig(seed=3)), plans_for(RunConfig(seed=4))
    assert [plan.task.task_id for plan in first] != [plan.task.task_id for plan in second]
    assert [plan.seed for plan in first] != [plan.seed for plan in second]


def test_arms_and_engine_do_not_change_the_work(plans_for):
    other = RunConfig(seed=3, arms=("concur",), speedup=3.0, pool_tokens=7, repeats=9)
    assert plans_for(RunConfig(seed=3)) == plans_for(other)


def test_every_task_comes_equally_often(plans_for):
    names = [plan.task.task_id for plan in plans_for(RunConfig(agents=9))]
    assert sorted(names) == sorted("abc" * 3)


def test_every_agent_has_an_id_and_a_seed_of_its_own(plans_for):
    plans = plans_for(RunConfig(agents=30))
    assert len({plan.agent_id for plan in plans}) == len({plan.seed for plan in plans}) == 30


def test_only_the_named_tasks_are_used(plans_for):
    assert {plan.task.task_id for plan in plans_for(RunConfig(tasks=("b",)))} == {"b"}


def test_long_tasks_are_left_out_unless_asked_for(make_task):
    tasks = [make_task("a"), make_task("tomlkit__0.13.2")]

    def chosen(*names):
        return {plan.task.task_id for plan in plan_agents(RunConfig(tasks=names), tasks)}

    assert chosen() == {"a"}
    assert chosen("all") == {"a", "tomlkit__0.13.2"}
    assert chosen("tomlkit__0.13.2") == {"tomlkit__0.13.2"}


def test_an_unknown_task_is_named(plans_for):
    with pytest.raises(ValueError, match="unknown task 'z': choose from a, b, c"):
        plans_for(RunConfig(tasks=("a", "z")))


async def test_every_agent_of_every_arm_leaves_a_record(batch):
    folder = await batch(RunConfig(agents=4, arms=("uncontrolled", "fixed:2")))
    for arm in ("uncontrolled", "fixed:2"):
        records = folder.arm(arm, 1).agents()
        assert [record.outcome for record in records] == ["completed"] * 4
        assert [record.resolved for record in records] == [True] * 4
        assert folder.arm(arm, 1).closing()["capacity_tokens"] == 1000
        assert folder.arm(arm, 1).timeline()


async def test_arms_do_the_same_work(batch):
    folder = await batch(RunConfig(agents=4, arms=("uncontrolled", "fixed:2")))
    one, two = (
        [(record.agent_id, record.task_id, record.seed) for record in folder.arm(arm, 1).agents()]
        for arm in ("uncontrolled", "fixed:2")
    )
    assert one == two


async def test_repeats_begin_with_another_arm_each(batch):
    progress = Quiet()
    await batch(RunConfig(agents=1, arms=("uncontrolled", "fixed:2"), repeats=2), progress=progress)
    begun = [entry[1:] for entry in progress.told if entry[0] == "preparing"]
    assert begun == [("uncontrolled", 1), ("fixed:2", 1), ("fixed:2", 2), ("uncontrolled", 2)]


async def test_the_tests_decide_whether_a_task_is_resolved(batch, fake_sandbox):
    folder = await batch(RunConfig(agents=1, arms=("fixed:1",)), judges=lambda: fake_sandbox(exit_code=1))
    (record,) = folder.arm("fixed:1", 1).agents()
    assert (record.outcome, record.resolved, record.test_exit_code) == ("completed", False, 1)


async def test_tests_that_ran_out_of_time_resolve_nothing(batch, fake_sandbox):
    stuck = fake_sandbox(exit_code=None, timed_out=True)
    folder = await batch(RunConfig(agents=1, arms=("fixed:1",)), judges=lambda: stuck)
    assert folder.arm("fixed:1", 1).agents()[0].resolved is False


async def test_an_agent_whose_sandbox_does_not_open_fails_alone(batch, fake_sandbox):
    def sandbox(plan):
        return OSError("no space") if plan.agent_id.startswith("001") else fake_sandbox()

    folder = await batch(RunConfig(agents=3, arms=("fixed:1",)), sandbox=sandbox)
    first, *others = folder.arm("fixed:1", 1).agents()
    assert (first.outcome, first.error, first.resolved) == ("failed", "OSError: no space", None)
    assert [record.outcome for record in others] == ["completed"] * 2


async def test_tests_that_cannot_run_leave_it_unknown(batch, fake_sandbox):
    class Broken(fake_sandbox):
        async def run(self, command, *, timeout):  # noqa: ASYNC109 - a Sandbox
            raise OSError("sandbox gone")

    folder = await batch(RunConfig(agents=2, arms=("fixed:1",)), judges=Broken)
    records = folder.arm("fixed:1", 1).agents()
    assert [(record.resolved, record.error) for record in records] == [(None, "judging: OSError: sandbox gone")] * 2


async def test_an_interrupted_batch_keeps_the_records_of_all_its_agents(batch, tmp_path, fake_model):
    reached = asyncio.Event()

    async def hang():
        reached.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(batch(RunConfig(agents=3, arms=("fixed:1",)), model=fake_model(before=hang)))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    arm = RunFolder(tmp_path / "run").arm("fixed:1", 1)
    assert [record.outcome for record in arm.agents()] == ["cancelled"] * 3
    assert not any(record.by_concur for record in arm.agents())
    assert arm.closing() is None


async def test_a_progress_that_fails_stops_the_run_instead_of_hiding(batch, fake_model):
    class Broken(Quiet):
        def sampled(self, arm, point):
            raise RuntimeError("no terminal")

    with pytest.raises(RuntimeError, match="no terminal"):
        await batch(RunConfig(agents=1, arms=("fixed:1",)), progress=Broken())


async def test_agents_start_at_the_pace_that_was_asked_for(batch):
    folder = await batch(RunConfig(agents=4, arms=("uncontrolled",), launch_rate=50.0))
    began = sorted(record.started_s for record in folder.arm("uncontrolled", 1).agents())
    assert all(later - earlier >= 0.015 for earlier, later in itertools.pairwise(began))


# Going on after an interruption


class Interruption:
    """Ends a run as Ctrl-C does, from within: ``await interruption.run(batch(...))`` ends at ``await now()``."""

    async def run(self, work):
        self._task = asyncio.ensure_future(work)
        with pytest.raises(asyncio.CancelledError):
            await self._task

    async def now(self):
        self._task.cancel()
        await asyncio.Event().wait()


async def test_who_has_ended_does_not_run_again(batch, tmp_path, fake_model):
    config = RunConfig(agents=3, arms=("fixed:1",))
    interruption, asked = Interruption(), []

    async def at_the_third_agent():
        asked.append(1)
        if len(asked) == 5:  # two generations each
            await interruption.now()

    await interruption.run(batch(config, model=fake_model(before=at_the_third_agent)))
    arm = RunFolder(tmp_path / "run").arm("fixed:1", 1)
    before = {record.agent_id: record for record in arm.agents()}
    assert sorted(record.outcome for record in before.values()) == ["cancelled", "completed", "completed"]
    reached = arm.elapsed_s()
    await batch(config)
    after = {record.agent_id: record for record in arm.agents()}
    assert [record.resolved for record in after.values()] == [True] * 3
    for name, record in before.items():
        if record.outcome == "completed":
            assert after[name].steps == record.steps
        else:
            assert after[name].started_s >= reached  # the clock goes on
    assert arm.closing()["resumed"]


async def test_an_arm_of_which_nobody_has_ended_begins_anew(batch, tmp_path, fake_model):
    config = RunConfig(agents=2, arms=("fixed:1",))
    interruption = Interruption()
    await interruption.run(batch(config, model=fake_model(before=interruption.now)))
    folder = await batch(config)
    arm = folder.arm("fixed:1", 1)
    assert not arm.closing()["resumed"]
    assert min(record.started_s for record in arm.agents()) < 1


async def test_an_arm_that_has_ended_is_left_alone(batch):
    config = RunConfig(agents=2, arms=("fixed:1", "uncontrolled"))
    folder = await batch(config)
    first = folder.arm("fixed:1", 1).agents()
    progress = Quiet()
    await batch(config, progress=progress)
    assert (progress.told, folder.arm("fixed:1", 1).agents()) == ([], first)


async def test_what_was_not_judged_is_judged_and_its_time_still_counts(batch, fake_sandbox):
    class Interrupted(fake_sandbox):
        async def run(self, command, *, timeout):  # noqa: ASYNC109 - a Sandbox
            await interruption.now()

    config, interruption = RunConfig(agents=2, arms=("fixed:1",)), Interruption()
    await interruption.run(batch(config, judges=Interrupted))
    folder = await batch(config)
    arm = folder.arm("fixed:1", 1)
    assert [record.resolved for record in arm.agents()] == [True] * 2
    assert (arm.closing()["judged"], arm.closing()["resumed"]) == (True, False)


async def test_who_failed_because_the_engine_is_gone_runs_again(batch, tmp_path, fake_model, monkeypatch):
    config = RunConfig(agents=2, arms=("fixed:1",))

    async def refused():
        raise ConnectionError("refused")

    monkeypatch.setattr(Engine, "dead", True)
    with pytest.raises(EngineError, match="gone"):
        await batch(config, model=fake_model(before=refused))
    assert RunFolder(tmp_path / "run").arm("fixed:1", 1).agents() == ()
    monkeypatch.setattr(Engine, "dead", False)
    folder = await batch(config)
    assert [record.outcome for record in folder.arm("fixed:1", 1).agents()] == ["completed"] * 2


@pytest.mark.parametrize("what", ["agents", "left"])
async def test_a_full_disk_is_one_line_and_loses_nothing(batch, tmp_path, monkeypatch, what):
    config, replace = RunConfig(agents=4, arms=("fixed:1",)), os.replace

    def full(source, target):
        if what in target.parts and len(list(target.parent.glob("*.json"))) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RecordError, match=rf"cannot write .*{what}/.*: No space left on device"):
        await batch(config)
    monkeypatch.setattr(os, "replace", replace)
    before = RunFolder(tmp_path / "run").arm("fixed:1", 1).agents()
    assert len(before) >= 2
    folder = await batch(config)
    after = {record.agent_id: record for record in folder.arm("fixed:1", 1).agents()}
    assert [record.resolved for record in after.values()] == [True] * 4
    assert all(after[record.agent_id].steps == record.steps for record in before if record.outcome == "completed")


@pytest.mark.parametrize("what", ["timeline.jsonl", "arm.json"])
async def test_a_disk_that_is_full_at_another_moment_loses_nobody(batch, tmp_path, monkeypatch, what):
    config, replace = RunConfig(agents=2, arms=("fixed:1",)), os.replace

    def full(source, target):
        if target.name == what:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    class Full(io.StringIO):
        name = what

        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        if what == "timeline.jsonl":
            patch.setattr(ArmFolder, "open_timeline", lambda self: Full())
        with pytest.raises(RecordError, match=rf"cannot write .*{what}: No space left on device"):
            await batch(config)
    folder = await batch(config)
    assert [record.resolved for record in folder.arm("fixed:1", 1).agents()] == [True] * 2
