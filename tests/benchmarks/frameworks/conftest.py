"""A batch of tiny tasks, and runs of known content. Imports no framework: these tests run in each one's environment."""

import importlib.util

import pytest

from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.records import AgentRecord, RunFolder, StepRecord
from benchmarks.swebench.sandbox import CommandResult
from benchmarks.swebench.tasks import Task

# Of the distributions that are installed: what `--framework` takes.
INSTALLED = [name for name in ("langgraph", "agentscope") if importlib.util.find_spec(f"concur_agents_{name}")]
INSTALLED = [name for name in INSTALLED if importlib.util.find_spec(name)]


def pytest_generate_tests(metafunc):
    if "framework" in metafunc.fixturenames:
        none = [pytest.param(None, marks=pytest.mark.skip(reason="no framework is installed"))]
        metafunc.parametrize("framework", INSTALLED or none)


@pytest.fixture
def make_task(tmp_path):
    """A task on a workspace with one file, whose test passes when the file says ``fixed``."""

    def task(task_id):
        workspace = tmp_path / "templates" / task_id
        workspace.mkdir(parents=True)
        (workspace / "state.txt").write_text("broken\n")
        packages = tmp_path / "packages"
        packages.mkdir(exist_ok=True)
        return Task(
            task_id=task_id,
            package="tiny",
            problem="state.txt says broken.",
            test_command="grep -q fixed state.txt",
            workspace=workspace,
            packages=packages,
            solution=(),
        )

    return task


OUTPUT = "a.py\n" * 100


class Sandbox:
    """Answers every command alike."""

    async def run(self, command, *, timeout):  # noqa: ASYNC109 - a Sandbox
        return CommandResult(exit_code=0, output=OUTPUT, timed_out=False, truncated=False, seconds=0.25)


@pytest.fixture
def sandbox():
    return Sandbox


@pytest.fixture
def make_run(tmp_path):
    """A run folder of one framework with one agent: makespan and prompt by arm."""

    def run(name, arms, *, prompt=1000, complete=True, **config):
        about = {
            "benchmark": "swebench",
            "config": RunConfig(agents=1, arms=tuple(arms), framework=name, **config).to_json(),
            "tasks": ["a"],
            "started": "2026-01-01T00:00:00+00:00",
            "cpus": 2,
            "versions": {"python": "3.11.0", "concur-agents": "0.1.0", name: "1.2.3"},
        }
        folder = RunFolder.create(tmp_path / f"{name}-{len(list(tmp_path.iterdir()))}", about)
        for arm, makespan in arms.items():
            where = folder.arm(arm, 1)
            where.create()
            step = StepRecord(
                started_s=0.0,
                wait_s=0.0,
                generation_s=makespan,
                prompt_tokens=prompt,
                cached_tokens=prompt // 2,
                output_tokens=10,
            )
            where.write_agent(
                AgentRecord(
                    agent_id="001-a",
                    task_id="a",
                    seed=1,
                    outcome="completed",
                    resolved=True,
                    started_s=0.0,
                    ended_s=makespan,
                    steps=(step,),
                )
            )
            if complete:
                where.write_closing({"harness_cpu_s": 0.02, "machine_busy": 0.5, "capacity_tokens": 2000})
        return folder

    return run
