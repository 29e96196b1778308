"""The program, against the emulator."""

import dataclasses
import re

import pytest
from typer.testing import CliRunner

from benchmarks.engines.choice import EngineChoice
from benchmarks.engines.emulated import emulated
from benchmarks.engines.wire import EngineError
from benchmarks.real import cli
from benchmarks.real.record import Record

FAST = ["--engine", "emulator", "--speedup", "400", "--agents", "2", "--repeats", "1"]


def call(*arguments):
    return CliRunner().invoke(cli.app, list(map(str, arguments)), env={"COLUMNS": "80"})


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One whole run, and its record."""
    path = tmp_path_factory.mktemp("cli") / "record.json"
    return call("run", *FAST, "--record", path), path


def test_a_run_fits_measures_and_predicts_every_arm(done):
    result, path = done
    assert result.exit_code == 0, result.output
    record = Record.load(path)
    assert record.complete
    assert [run.arm for run in record.runs] == [run.arm for run in record.predicted] == list(record.arms)
    assert record.fit is not None
    assert sum(run.batch.lost for run in (*record.runs, *record.predicted)) == 0


def test_a_run_prints_table_comparison_and_where_the_record_is(done):
    result, path = done
    assert re.search(r"^concur +\d+\.\d", result.output, re.MULTILINE)
    assert "off by" in result.output
    assert path.name in result.output.replace("\n", "")


def test_the_record_names_no_path(done):
    _, path = done
    assert "/" not in re.sub(r"[a-z] / [a-z]", "", path.read_text())


def test_report_prints_markdown(done):
    _, path = done
    result = call("report", path)
    assert result.exit_code == 0
    assert "| `fixed:8` |" in result.output


def test_fit_and_predict_renew_their_part_of_a_record(done, tmp_path):
    path = tmp_path / "copy.json"
    path.write_bytes(done[1].read_bytes())
    assert call("fit", path, "--engine", "emulator", "--speedup", "400").exit_code == 0
    assert Record.load(path).predicted == ()  # of another fit, so no longer true
    assert call("predict", path, "--speedup", "400").exit_code == 0
    renewed = Record.load(path)
    assert len(renewed.predicted) == 3
    assert renewed.runs == Record.load(done[1]).runs


def test_without_a_cost_model_predict_says_what_to_do(tmp_path, make_record):
    path = tmp_path / "record.json"
    dataclasses.replace(make_record(), fit=None).save(path)
    result = call("predict", path)
    assert result.exit_code == 1
    assert "run `fit` first" in result.output


def test_measuring_only_leaves_fit_and_prediction_out(tmp_path):
    path = tmp_path / "record.json"
    assert call("run", *FAST, "--no-predict", "--arms", "fixed:1", "--record", path).exit_code == 0
    record = Record.load(path)
    assert (record.fit, record.predicted, len(record.runs)) == (None, (), 1)


async def test_a_url_is_used_as_it_is(cost):
    async with emulated({}, cost) as running, EngineChoice(name=running.url + "/v1/").open() as engine:
        assert engine.url == running.url
        assert engine.session is None


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--engine", "gpu"], "engine must be"),
        (["--arms", "magic"], "unknown arm"),
        (["--agents", "0"], "agents must be at least 1"),
        (["--engine", "emulator", "--speedup", "0"], "speedup must be above 0"),
        (["--engine", "http://127.0.0.1:9"], "no engine answers"),
        (["--venv", "no-such-venv"], "there is no"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line_before_there_is_a_record(tmp_path, arguments, complaint):
    result = call("run", *arguments, "--home", tmp_path / "home", "--record", tmp_path / "record.json")
    assert result.exit_code == 1
    assert complaint in " ".join(result.output.split())
    assert not (tmp_path / "record.json").exists()


def test_a_file_that_is_no_record_is_refused(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    assert "no record of this benchmark" in " ".join(call("report", tmp_path / "other.json").output.split())
    assert call("report", tmp_path / "missing.json").exit_code == 1


def test_interrupted_it_shows_what_there_is(tmp_path, monkeypatch, make_record, make_run):
    path = tmp_path / "record.json"
    make_record(make_run("uncontrolled", 1, 150.0)).save(path)

    def interrupted(work):
        work.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupted)
    result = call("predict", path)
    assert result.exit_code == cli.INTERRUPTED
    assert "150.0" in result.output


def test_installing_is_asked_for_only_where_the_benchmark_starts_the_engine_itself(tmp_path):
    assert EngineChoice().needs_install
    assert not EngineChoice(venv=tmp_path).needs_install
    assert not EngineChoice(name="emulator").needs_install


def test_a_failed_installation_ends_the_run(tmp_path, monkeypatch):
    def failed(home, say):
        raise EngineError("installing failed: no network")

    monkeypatch.setattr(cli, "ensure_installed", failed)
    for command in (["install"], ["run", "--record", str(tmp_path / "record.json")]):
        result = call(*command, "--home", tmp_path)
        assert result.exit_code == 1
        assert "installing failed" in result.output
