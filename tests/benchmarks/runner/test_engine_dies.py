"""An engine that is killed in the middle of a batch: a line says so, who had ended stays, the others run again."""

import contextlib
import json
import os
import signal

import pytest

from benchmarks.engines.warden import members
from benchmarks.engines.wire import EngineError
from benchmarks.swebench import runner
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.engine import open_engine
from benchmarks.swebench.planning import plan_agents
from benchmarks.swebench.records import RunFolder
from benchmarks.swebench.runner import run_arms
from benchmarks.swebench.tasks import load_recorded

AGENTS = 8


class Murder:
    """A Progress that kills the engine once an agent has ended."""

    engine = None

    @contextlib.asynccontextmanager
    async def watched(self, *args, **more):
        async with open_engine(*args, **more) as self.engine:
            yield self.engine

    def preparing(self, arm, repeat):
        pass

    def sampled(self, arm, point):
        if 0 < point.finished < AGENTS:
            for pid in members(self.engine.session):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def judging(self, arm):
        pass

    def finished(self, arm, repeat, figures):
        pass


class Peace(Murder):
    def sampled(self, arm, point):
        pass


async def test_who_had_ended_stays_and_the_others_run_again(tmp_path, monkeypatch):
    file = tmp_path / "recorded.jsonl"
    steps = [{"p": 200, "o": 20, "tool_s": 2.0}, {"p": 400, "o": 20, "tool_s": 2.0}, {"p": 600, "o": 5}]
    file.write_text("\n".join(json.dumps({"id": f"s{number}", "steps": steps}) for number in range(AGENTS)))
    config = RunConfig(agents=AGENTS, arms=("fixed:1",), recordings=str(file))
    plans = plan_agents(config, load_recorded(file))
    folder = RunFolder.create(tmp_path / "run", {"config": config.to_json()})
    arm, murder = folder.arm("fixed:1", 1), Murder()
    monkeypatch.setattr(runner, "open_engine", murder.watched)
    with pytest.raises(EngineError, match=r"the server ended with exit code"):
        await run_arms(config, plans, folder, murder)
    before = arm.agents()
    assert 0 < len(before) < AGENTS
    assert {record.outcome for record in before} == {"completed"}
    assert arm.closing() is None
    await run_arms(config, plans, folder, Peace())
    after = {record.agent_id: record for record in arm.agents()}
    assert [record.outcome for record in after.values()] == ["completed"] * AGENTS
    assert all(after[record.agent_id] == record for record in before)
    assert arm.closing()["resumed"]
