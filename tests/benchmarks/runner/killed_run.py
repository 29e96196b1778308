"""Runs that are killed at their n-th step towards the disk, each in a process of its own, forked from this one.

Reads ``{"root": FOLDER, "last": N or null}`` a line, and answers with the exit code, and how many steps it took to the
end.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from benchmarks.swebench import arm_run, records, runner
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.planning import plan_agents
from benchmarks.swebench.records import RunFolder
from benchmarks.swebench.runner import run_arms
from benchmarks.swebench.setting import Setting
from benchmarks.swebench.tasks import Task
from concur_agents.testing import ScriptedReader

_spec = importlib.util.spec_from_file_location("fakes", Path(__file__).with_name("conftest.py"))
fakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fakes)

CONFIG = RunConfig(agents=2, arms=("uncontrolled", "fixed:2"))
FIX = [
    {"content": "", "tool_calls": [{"name": "bash", "arguments": {"command": "fix"}}], "output_tokens": 5},
    {"content": "Done.", "tool_calls": [], "output_tokens": 2},
]


class Steps:
    """Counts steps towards the disk, and kills this process at one of them."""

    def __init__(self, last):
        self.count = 0
        self._last = last

    def __call__(self):
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function):
        def stepped(*args, **more):
            self()
            result = function(*args, **more)
            self()
            return result

        return stepped

    def torn(self, stream, point):
        line = json.dumps(asdict(point)) + "\n"
        stream.write(line[:20])
        stream.flush()
        self()
        stream.write(line[20:])


class Engine:
    url = "http://nowhere"
    name = "an engine"
    about: ClassVar = {}
    capacity_tokens = 1000

    def cpu_s(self):
        return None

    def reader(self):
        return ScriptedReader()

    async def check_alive(self):
        pass


class Sandboxes:
    async def open(self, workspace, changes):
        return fakes.FakeSandbox()


class Quiet:
    def preparing(self, arm, repeat):
        pass

    sampled = preparing

    def judging(self, arm):
        pass

    def finished(self, arm, repeat, figures):
        pass


def run(root: str, last: int | None) -> int:
    """Run or go on with the run in ``root``; return how many steps towards the disk it took."""
    steps = Steps(last)
    os.replace = steps.around(os.replace)
    arm_run.append_point = steps.torn
    records.shutil.rmtree = steps.around(records.shutil.rmtree)
    runner.BubblewrapSandboxes = lambda packages: contextlib.nullcontext(Sandboxes())
    runner.open_engine = lambda *args, **more: contextlib.nullcontext(Engine())

    @contextlib.asynccontextmanager
    async def open_setting(config, engine, plans, sandboxes, proxy):
        yield Setting(
            engine, fakes.FakeModel(), {plan: fakes.FakeSandbox() for plan in plans}, dict.fromkeys(plans, FIX)
        )

    runner.open_setting = open_setting
    folder = Path(root)
    task = Task(
        task_id="a",
        package="tiny",
        problem="Broken.",
        test_command="true",
        workspace=folder,
        packages=folder,
        solution=(),
    )
    run_folder = folder / "run"
    if not run_folder.exists():
        RunFolder.create(run_folder, {"config": CONFIG.to_json()})
    asyncio.run(run_arms(CONFIG, plan_agents(CONFIG, [task]), RunFolder.open(run_folder), Quiet()))
    return steps.count


def forked(root, last):
    told, tell = os.pipe()
    if not (child := os.fork()):
        code = 1
        try:
            os.write(tell, str(run(root, last)).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(tell)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with os.fdopen(told) as stream:
        return {"code": code, "steps": stream.read()}


if __name__ == "__main__":
    # What a first run imports and compiles takes over a second of CPU: those that are forked have it already. The steps
    # that this one counts go on being counted, and end nobody.
    with tempfile.TemporaryDirectory() as folder:
        run(folder, None)
    for line in sys.stdin:
        print(json.dumps(forked(**json.loads(line))), flush=True)
