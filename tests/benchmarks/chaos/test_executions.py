"""Whether a step was executed twice at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chaos.executions import Execution, overlaps, read_executions

GRACE = 1.0


def execution(begin: float, end: float | None, *, cut: bool = False, agent: str = "a", step: int = 0) -> Execution:
    return Execution(agent=agent, step=step, attempt=0, begin_s=begin, end_s=end, cut=cut)


@pytest.mark.parametrize(
    "others",
    [
        [execution(5, 6)],
        [execution(3, 6)],
        [execution(1, 2, agent="b")],
        [execution(1, 2, step=1)],
        [execution(1, 2, agent="b"), execution(1, 2, step=1), execution(3, 4), execution(4, None)],
    ],
    ids=["later", "right after", "another agent", "another step", "all of them"],
)
def test_what_is_apart_is_no_overlap(others: list[Execution]) -> None:
    assert overlaps([*others, execution(0, 3)], GRACE) == []


def test_an_earlier_one_that_was_cut_soon_is_no_overlap() -> None:
    assert overlaps([execution(0, 3.9, cut=True), execution(3, 5)], GRACE) == []


@pytest.mark.parametrize(
    "earlier",
    [execution(0, 4.1, cut=True), execution(0, None), execution(0, 3.1), execution(0, 9)],
    ids=["cut late", "still runs", "answered", "answered after the later one"],
)
@pytest.mark.parametrize("turned", [False, True])
def test_two_at_once_are_found(earlier: Execution, *, turned: bool) -> None:
    later = execution(3, 5)
    pair = [later, earlier] if turned else [earlier, later]
    assert overlaps(pair, GRACE) == [(earlier, later)]


def test_the_first_pair_of_each_step_is_found() -> None:
    many = [execution(begin, 10, agent=agent) for begin in range(4) for agent in "ab"]
    assert overlaps(many, GRACE) == [(many[0], many[2]), (many[1], many[3])]


def note(what: str, number: int, at_s: float, **more: Any) -> str:
    return json.dumps({"what": what, "id": number, "at_s": at_s, **more}) + "\n"


def begin(number: int, at_s: float) -> str:
    return note("begin", number, at_s, agent="a", step=number, attempt=2)


def test_notes_are_read_as_executions(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text(begin(1, 0.5) + begin(2, 1) + note("end", 2, 3, cut=True) + note("end", 1, 4, cut=False))
    first, second = read_executions(file)
    assert first == Execution(agent="a", step=1, attempt=2, begin_s=0.5, end_s=4)
    assert (second.end_s, second.cut) == (3, True)


def test_a_process_that_died_ends_what_it_executed(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text(begin(1, 1) + begin(2, 2) + note("end", 1, 3, cut=False) + '{"what": "be')
    assert [(each.end_s, each.cut) for each in read_executions(file, 7)] == [(3, False), (7, True)]
    assert [each.end_s for each in read_executions(file)] == [3, None]


def test_an_engine_that_never_served_executed_nothing(tmp_path: Path) -> None:
    assert read_executions(tmp_path / "none.jsonl", 1) == []
