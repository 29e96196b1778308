"""``python -m benchmarks.fleet.real``, on emulators that take next to no time."""

from __future__ import annotations

import shutil

import pytest
from typer.testing import CliRunner

from benchmarks.fleet.real.bench import headers_of
from benchmarks.fleet.real.cli import app
from benchmarks.fleet.real.fronts import FRONTS
from benchmarks.fleet.real.record import Record
from benchmarks.lab.batch import Batch, Plan, Step

QUICK = ["--engine", "emulator", "--speedup", "400", "--agents", "3", "--workload", "judge"]


def invoke(*args: str):
    return CliRunner().invoke(app, list(args))


def test_every_arm_runs_and_the_servers_counters_say_what_the_agents_asked(tmp_path) -> None:
    arms = ",".join(FRONTS) if shutil.which("nginx", path="/usr/bin:/usr/sbin") else "gateway"
    path = tmp_path / "record.json"
    result = invoke("run", "--json", str(path), "--home", str(tmp_path), "--arms", arms, "--repeats", "1", *QUICK)
    assert result.exit_code == 0, result.output
    record = Record.load(path)
    assert [run.arm for run in record.runs] == arms.split(",")
    for run in record.runs:
        assert (run.lost, run.error) == (0, None)
        assert run.makespan_s > 0
        assert sum(share.prompt_tokens for share in run.servers) == record.cases[1].prompt_tokens
        hits = sum(share.hit_tokens for share in run.servers)
        assert hits / record.cases[1].prompt_tokens == pytest.approx(run.hit_rate, abs=1e-3)
    assert "| `gateway` |" in result.output
    assert invoke("report", "--json", str(path)).output in result.output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--workload", "none"], "workload must be one of"),
        (["--arms", "none"], "arm must be one of"),
        (["--engine", "none"], "engine must be one of sglang, emulator"),
    ],
)
def test_names_that_cannot_be_are_refused_before_anything_starts(args, message, tmp_path) -> None:
    result = invoke("run", "--json", str(tmp_path / "record.json"), "--home", str(tmp_path), *args)
    assert result.exit_code == 1
    assert message in result.output


def test_a_file_without_runs_is_no_report(tmp_path) -> None:
    result = invoke("report", "--json", str(tmp_path / "none.json"))
    assert result.exit_code == 1
    assert "nothing measured" in result.output


def test_requests_name_their_agent_and_say_which_is_its_last() -> None:
    plans = [Plan("a", [Step(10, 2, 0.0)]), Plan("b/c", [Step(10, 2, 0.0), Step(20, 2, 0.0)])]
    headers = headers_of(Batch.of(plans))
    assert headers("a/0") == {"X-Session-ID": "a", "X-Session-Final": "true"}
    assert headers("b/c/0") == {"X-Session-ID": "b/c"}
    assert headers("b/c/1") == {"X-Session-ID": "b/c", "X-Session-Final": "true"}
