"""kill -9 at any point: the run goes on, loses nothing and counts nothing twice."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.records import RunFolder
from benchmarks.swebench.summary import figures_of

POINTS = 20
CONFIG = RunConfig(agents=2, arms=("uncontrolled", "fixed:2"))


@pytest.fixture(scope="module")
def played():
    """Run in a process of its own; returns its exit code, and the steps it took if it got to its end."""
    program = [sys.executable, str(Path(__file__).with_name("killed_run.py"))]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:

        def played(root, last=None):
            server.stdin.write(json.dumps({"root": str(root), "last": last}) + "\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            return answer["code"], answer["steps"]

        yield played
        server.stdin.close()


@pytest.fixture(scope="module")
def steps(played, tmp_path_factory):
    """That a run takes when nobody kills it."""
    code, steps = played(tmp_path_factory.mktemp("whole"))
    assert code == 0
    return int(steps)


@pytest.mark.parametrize("point", range(POINTS))
def test_nothing_is_lost_and_nothing_counted_twice(tmp_path, played, steps, point):
    last = random.Random(point).randrange(1, max(2, steps - 4))  # how often the timeline is written is a matter of time
    code, _ = played(tmp_path, last)
    assert code == -signal.SIGKILL
    folder = RunFolder.open(tmp_path / "run")
    arms = [folder.arm(arm, 1) for arm in CONFIG.arms]
    before = [arm.agents() if arm.path.exists() else () for arm in arms]
    assert played(tmp_path)[0] == 0
    for arm, ended in zip(arms, before, strict=True):
        after = {record.agent_id: record for record in arm.agents()}
        assert [record.outcome for record in after.values()] == ["completed"] * CONFIG.agents
        assert all(record.resolved for record in after.values())
        assert all(after[record.agent_id].steps == record.steps for record in ended)
        closing = arm.closing()
        figures = figures_of(arm.agents(), expected=CONFIG.agents, closing=closing)
        assert (figures.complete, figures.lost, figures.steps) == (True, 0, 2 * CONFIG.agents)
        at = [point.at_s for point in arm.timeline()]
        assert at == sorted(at)
