"""The program, against the emulator over HTTP."""

import pytest
from typer.testing import CliRunner

from benchmarks.lab.real import cli, figures, report
from benchmarks.lab.real.store import Store

FAST = ["--engine", "emulator", "--speedup", "400", "--workloads", "judge", "--agents", "2", "--repeats", "1"]


def call(*arguments):
    return CliRunner().invoke(cli.app, list(map(str, arguments)), env={"COLUMNS": "80"})


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One whole run, and its file."""
    path = tmp_path_factory.mktemp("cli") / "runs.jsonl"
    with pytest.MonkeyPatch.context() as patch:  # other tests may run beside this one
        patch.setattr(figures, "NOISY", 9)
        patch.setattr(report, "NOISY", 9)
        return call("run", *FAST, "--arms", "uncontrolled,fixed:1", "--json", path), path


def test_a_run_measures_predicts_and_reports(done) -> None:
    result, path = done
    assert result.exit_code == 0, result.output
    store = Store.load(path)
    assert [run.arm for run in store.runs] == [run.arm for run in store.predictions] == ["uncontrolled", "fixed:1"]
    assert "| `fixed:1` |" in result.output
    assert "Kendall's tau" in result.output


def test_the_file_names_no_path_and_no_host(done) -> None:
    text = done[1].read_text()
    assert "127.0.0.1" not in text
    assert "tmp" not in text


def test_report_and_predict_need_the_file_only(done) -> None:
    _, path = done
    assert "| `uncontrolled` |" in call("report", "--json", path).output
    result = call("predict", "--json", path, "--arms", "fixed:2")
    assert result.exit_code == 0, result.output
    assert [run.arm for run in Store.load(path).predictions] == ["uncontrolled", "fixed:1", "fixed:2"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--engine", "gpu"], "engine must be"),
        (["--engine", "vllm"], "vllm needs"),
        (["--arms", "magic"], "unknown arm"),
        (["--workloads", "magic"], "workload must be"),
        (["--url", "http://127.0.0.1:9"], "no engine answers"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(tmp_path, arguments, complaint) -> None:
    result = call("run", *FAST, *arguments, "--json", tmp_path / "runs.jsonl")
    assert result.exit_code == 1
    assert complaint in " ".join(result.output.split())
    assert not (tmp_path / "runs.jsonl").exists()


def test_an_empty_file_is_said(tmp_path) -> None:
    result = call("report", "--json", tmp_path / "missing.jsonl")
    assert result.exit_code == 1
    assert "nothing measured" in " ".join(result.output.split())


def test_interrupted_it_says_how_to_go_on(tmp_path, monkeypatch) -> None:
    def interrupted(work):
        work.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run_interruptibly", interrupted)
    result = call("run", *FAST, "--json", tmp_path / "runs.jsonl")
    assert result.exit_code == cli.INTERRUPTED
    assert "the same command goes on" in " ".join(result.output.split())
