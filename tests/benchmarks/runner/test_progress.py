"""A terminal sees the run live; a log gets one line an arm."""

import io

import pytest
from rich.console import Console

from benchmarks.swebench.progress import TimeLeft, open_progress
from benchmarks.swebench.summary import figures_of


def shown(make_point, figures, *, terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    with open_progress(console, 3, 1) as progress:
        progress.preparing("concur", 2)
        progress.sampled("concur", make_point(1.0, finished=1, occupied_usage=0.5))
        progress.sampled("concur", make_point(2.0))
        progress.judging("concur")
        progress.finished("concur", 2, figures)
    return console.file.getvalue()


@pytest.fixture
def figures(make_record):
    records = [make_record(ended_s=4.0, resolved=True)]
    return figures_of(records, expected=3, closing={})


def test_a_log_gets_one_line_an_arm(make_point, figures):
    text = shown(make_point, figures, terminal=False)
    assert text == "concur (repeat 2): 4.0 s, hit rate 0.0%, 1 of 3 resolved\n"


def test_a_terminal_sees_how_the_arm_ended(make_point, figures):
    text = shown(make_point, figures, terminal=True)
    assert "concur #2" in text
    assert "4.0 s, hit rate 0.0%, 1 of 3 resolved" in text


def test_an_arm_without_figures_is_unknown(make_point):
    text = shown(make_point, figures_of([], expected=3, closing=None), terminal=False)
    assert text == "concur (repeat 2): ?, hit rate ?, 0 of 3 resolved\n"


def test_the_time_left_is_that_of_as_many_runs_as_those_before():
    now = [0.0]
    left = TimeLeft(4, clock=lambda: now[0])

    def run(seconds):
        left.began()
        now[0] += seconds
        said = left.ended()
        now[0] += 1000.0  # between runs nothing counts
        return said

    assert run(100.0) == ", about 5 min left"
    assert run(20.0) == ", about 2 min left"
    assert run(30_000.0) == ", about 2.8 h left"
    assert run(1.0) == ""
