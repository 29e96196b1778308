"""mini-swe-agent's own batch runner, by the command that a user starts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from minisweagent.run.benchmarks.utils import common

from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.emulator.scripts import ScriptedReply
from concur_agents.shared import shared_controller
from concur_agents_mini_swe_agent.__main__ import main

pytestmark = pytest.mark.filterwarnings("ignore")  # of data set libraries, and of what the runner itself leaves behind
NAMES = [f"task-{number}" for number in range(6)]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(common, "ProgressTrackingAgent", common.ProgressTrackingAgent)
    monkeypatch.delitem(sys.modules, "minisweagent.run.benchmarks.swebench", raising=False)
    for name in ("CONCUR_CONFIG", "CONCUR_ENGINE_URL"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> object:
        monkeypatch.setattr(sys, "argv", ["concur", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code

    return run


def script(emulator: Emulator, name: str) -> None:
    commands = ("echo one", f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo {name}")
    replies = [{"tool_calls": [{"name": "bash", "arguments": {"command": command}}]} for command in commands]
    emulator.service.scripts.register(name, [ScriptedReply.parse(reply, "reply") for reply in replies])


def write(folder: Path, emulator: Emulator) -> tuple[str, dict[str, Any]]:
    (folder / "data").mkdir()
    rows = [{"instance_id": name, "problem_statement": f"Solve {name}."} for name in NAMES]
    (folder / "data" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {"engine": emulator.url, "law": "fixed:2", "tick": 3600.0}
    config = {
        "agent": {"concur": settings},
        "environment": {"environment_class": "local", "cwd": str(folder)},
        "model": {
            "model_name": "openai/m",
            "cost_tracking": "ignore_errors",
            "model_kwargs": {"api_base": f"{emulator.url}/v1", "api_key": "none", "max_retries": 0},
        },
    }
    (folder / "batch.yaml").write_text(yaml.safe_dump(config))
    return str(folder / "data"), settings


def test_a_batch_of_six_on_two_seats(tmp_path: Path, command: Any) -> None:
    with Emulator(ServiceConfig.preset("laptop", speedup=1000)) as emulator:
        for name in NAMES:
            script(emulator, name)
        data, settings = write(tmp_path, emulator)
        options = ["--subset", data, "--split", "test", "-w", "6", "-o", str(tmp_path / "out")]
        status = command("swebench", *options, "-c", "swebench.yaml", "-c", str(tmp_path / "batch.yaml"))
        predictions = json.loads((tmp_path / "out" / "preds.json").read_text())
        controller = shared_controller(settings)
    assert status in (0, None)
    assert {name: each["model_patch"].strip() for name, each in predictions.items()} == {name: name for name in NAMES}
    stats = controller.stats()
    assert {str(outcome): count for outcome, count in stats.finished.items() if count} == {"completed": 6}
    assert stats.population.seated == 0


def test_a_bad_configuration_is_said_before_any_instance_is_begun(tmp_path: Path, command: Any) -> None:
    options = ["-o", str(tmp_path / "out"), "-c", "swebench.yaml", "-c", "agent.concur.law=fixed:0"]
    said = command("swebench", *options)
    assert "law.n must be" in said
    assert "engine" in command("swebench", "-o", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
