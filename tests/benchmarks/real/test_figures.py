"""Figures and tables of records with known figures."""

import io

import pytest
from rich.console import Console

from benchmarks.real.figures import figures
from benchmarks.real.table import markdown, render


@pytest.fixture
def record(make_record, make_run):
    runs = [
        make_run(arm, repeat, makespan)
        for arm, makespans in (("uncontrolled", (150.0, 160.0, 180.0)), ("concur", (100.0, 80.0, 120.0)))
        for repeat, makespan in enumerate(makespans, start=1)
    ]
    return make_record(*runs, predicted=(make_run("uncontrolled", 1, 144.0), make_run("concur", 1, 110.0)))


def shown(record):
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(render(record))
    return console.export_text()


def test_ratios_are_taken_within_a_repeat(record):
    concur = figures(record)[1]
    assert (concur.speedup.low, concur.speedup.median, concur.speedup.high) == (1.5, 1.5, 2.0)
    assert (concur.makespan_s.low, concur.makespan_s.median, concur.makespan_s.high) == (80.0, 100.0, 120.0)


def test_the_baseline_is_as_fast_as_itself(record):
    assert figures(record)[0].speedup.low == figures(record)[0].speedup.high == 1.0


def test_the_predictions_error_is_relative_to_the_measured_median(record):
    assert [arm.error for arm in figures(record)] == [pytest.approx(-0.1), pytest.approx(0.1)]


def test_a_repeat_without_its_baseline_is_not_compared(make_record, make_run):
    record = make_record(make_run("uncontrolled", 1, 150.0), make_run("concur", 1, 100.0), make_run("concur", 2, 1.0))
    assert figures(record)[1].speedup.high == 1.5


def test_what_is_not_known_is_none_and_shown_as_such(make_record):
    arm = figures(make_record())[0]
    assert (arm.makespan_s, arm.speedup, arm.hit_rate, arm.recomputed_tokens, arm.error) == (None,) * 5
    assert "?" in shown(make_record())


def test_the_terminal_table_fits_80_columns_and_has_every_figure(record):
    text = shown(record)
    assert max(map(len, text.splitlines())) <= 80
    for figure in ("100.0 (80.0..120.0)", "1.50 (1.50..2.00)", "0.40", "-10.0%", "+10.0%"):
        assert figure in text


def test_markdown_has_the_same_rows(record):
    text = markdown(record)
    assert "| `concur` | 100.0 (80.0..120.0) | 1.50 (1.50..2.00) | 0.40 | 200 | 0 |" in text
    assert "| `concur` | 100.0 (80.0..120.0) | 110.0 | +10.0% |" in text
    assert "3.5 times the pool of 16,000 tokens" in text


def test_without_a_prediction_there_is_one_table(make_record, make_run):
    text = markdown(make_record(make_run("uncontrolled", 1, 150.0)))
    assert "emulator s" not in text


def test_doubtful_runs_are_named(make_record, make_run):
    text = markdown(
        make_record(make_run("uncontrolled", 1, 150.0, others_cpu=0.3), make_run("concur", 1, 100.0, lost=1))
    )
    assert "uncontrolled, repeat 1: other programs used 30% of all cores" in text
    assert "concur, repeat 1: 1 agents lost; agent-00: ConnectionError: gone" in text
    assert "Not finished: 2 of 6 runs" in text


def test_a_quiet_complete_record_warns_of_nothing(record):
    text = markdown(record)
    assert "doubtful" not in text
    assert "Not finished" not in text
