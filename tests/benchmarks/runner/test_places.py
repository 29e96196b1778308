"""A task that names an image gets it: for its agent, for the warm-up and for its tests."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.engines.engine import Engine
from benchmarks.swebench import runner
from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.judge import SCRIPT, judge
from benchmarks.swebench.planning import plan_agents
from benchmarks.swebench.records import ArmFolder
from benchmarks.swebench.setting import open_setting

IMAGE = "docker.io/a/b:1"


class Scoring:
    script = "run the tests"
    setup = "make the bug"
    timeout_s = 90.0
    verdict = True

    def resolved(self, output):
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict and "a.py" in output


@pytest.fixture
def scoring():
    return Scoring()


@pytest.fixture
def task(make_task, scoring):
    patch = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
    return replace(make_task("a"), image=IMAGE, workspace=Path(), solution=(), patch=patch, official=scoring)


@pytest.fixture
def sandboxes(fake_sandbox):
    class Sandboxes:
        def __init__(self):
            self.opened, self.result = [], {}

        async def workspace_of(self, image, setup=""):
            return Path("/of") / image / setup

        async def open(self, workspace, changes=None, *, image=None, limits=None):
            self.opened.append((workspace, changes, image, limits))
            self.last = fake_sandbox(**self.result)
            return self.last

    return Sandboxes()


@pytest.fixture
def judged(tmp_path, make_record, task, sandboxes):
    """Has an agent that left this judged, and gives its record."""

    async def judged(left):
        folder = ArmFolder(tmp_path / "arm")
        folder.create()
        folder.write_agent(make_record())
        if left is not None:
            folder.write_left("001-a", left)
        await judge(folder, [AgentPlan("001-a", task, 1)], sandboxes)
        return folder.agents()[0]

    return judged


async def test_agents_and_the_warm_up_get_the_image(task, sandboxes, answering):
    config = RunConfig(agents=2, engine="http://engine")
    engine = Engine(url=answering(500, b"{}"), name="a server", model="m", scheduling={})
    async with open_setting(config, engine, plan_agents(config, [task]), sandboxes):
        pass
    assert [image for _, _, image, _ in sandboxes.opened] == [IMAGE] * 3
    first, second, warm_up = [workspace for workspace, *_ in sandboxes.opened]
    assert (first, second) == (Path("/of") / IMAGE / "make the bug",) * 2
    assert warm_up not in (first, Path())


async def test_tests_get_the_image_the_files_and_the_script(judged, sandboxes):
    record = await judged({"fix.py": b"1"})
    assert (record.resolved, record.test_exit_code) == (True, 0)
    ((workspace, changes, image, limits),) = sandboxes.opened
    assert (workspace, image) == (Path("/of") / IMAGE / "make the bug", IMAGE)
    assert changes == {"fix.py": b"1", SCRIPT: b"run the tests"}
    assert (sandboxes.last.commands, sandboxes.last.timeouts) == ([f"bash {SCRIPT}"], [90.0])
    assert limits.kept_output_bytes == limits.read_output_bytes  # every line may count


@pytest.mark.parametrize(("verdict", "code"), [(True, 1), (False, 0)])
async def test_what_the_package_says_decides_and_not_the_exit_code(judged, sandboxes, scoring, verdict, code):
    scoring.verdict, sandboxes.result = verdict, {"exit_code": code}
    record = await judged({"fix.py": b"1"})
    assert (record.resolved, record.test_exit_code) == (verdict, code)


@pytest.mark.parametrize("result", [{"timed_out": True, "exit_code": None}, {"output": "nothing"}])
async def test_tests_without_an_end_or_a_result_resolve_nothing(judged, sandboxes, result):
    sandboxes.result = result
    assert (await judged({"fix.py": b"1"})).resolved is False


async def test_an_agent_that_left_nothing_has_resolved_nothing(judged, sandboxes):
    assert ((await judged({})).resolved, sandboxes.opened) == (False, [])


async def test_what_is_not_known_of_an_agent_is_not_judged(judged, sandboxes):
    assert ((await judged(None)).resolved, sandboxes.opened) == (None, [])


async def test_a_package_that_fails_leaves_it_unknown_and_says_why(judged, scoring):
    scoring.verdict = KeyError("parse_log_x")
    record = await judged({"fix.py": b"1"})
    assert (record.resolved, record.error) == (None, "judging: KeyError: 'parse_log_x'")


@pytest.mark.parametrize("kind", ["podman", "docker"])
def test_the_kind_of_sandbox_that_was_asked_for_is_opened(task, make_task, monkeypatch, kind):
    asked = []
    monkeypatch.setattr(runner, "sandboxes_of", lambda kind, *, packages: asked.append((kind, packages)))
    own = make_task("b")
    for each in (task, own):
        config = RunConfig(agents=1, sandbox=kind)
        runner._sandboxes(config, plan_agents(config, [each]))
    assert asked == [(kind, None), (kind, own.packages)]
