"""Whether what may not be is found, and what may be is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.chaos.executions import Execution
from benchmarks.chaos.plan import Fault
from benchmarks.chaos.shared.checks import links, unheard_of
from benchmarks.chaos.shared.notes import Notebook, WorkerNotes, read_notes
from benchmarks.chaos.shared.plan import LEASE_S, PATIENCE_S
from benchmarks.chaos.shared.window import SETTLED_S, above_window

LONG = 2 * LEASE_S
NOBODY = "worker 'host-{}-0123abcd' was not heard of for 4 s: its agents between steps end"


def ran(agent: str, begin: float, end: float | None, step: int = 0) -> Execution:
    return Execution(agent=agent, step=step, attempt=0, begin_s=begin, end_s=end)


def notes_of(*executions: Execution, **more: Any) -> WorkerNotes:
    """Of a worker whose agents were all granted seats just before, and got their replies."""
    tries = {(each.agent, each.step, each.attempt): each.begin_s for each in executions}
    return WorkerNotes(granted=tries, done=set(tries), **more)


TWO = [ran("c0a0", 10, 12), ran("c0a1", 11, 13)]
THREE = [*TWO, ran("c0a2", 11.5, 14)]


def found(executions: list[Execution], window: int, moments: list[float] | None = None, **more: Any) -> list[str]:
    return list(above_window(executions, [notes_of(*executions, **more)], window, moments or []))


def test_as_many_as_there_are_seats_are_no_problem() -> None:
    assert found(THREE, 3) == []
    assert found([ran("c0a0", 10, 11), ran("c0a1", 11, 12), ran("c0a2", 12, 13)], 1) == []


@pytest.mark.parametrize("end", [14.0, None], ids=["ended", "runs"])
def test_one_more_is_found_once_between_two_moments(end: float | None) -> None:
    (problem,) = found([*TWO, ran("c0a2", 11.5, end), ran("c0a3", 11.6, 12)], 2)
    assert problem.startswith("3 generated at 11.500 in 2 seats")


def test_sub_agents_share_a_seat() -> None:
    assert found([*TWO, ran("c0a1s0", 11.5, 14), ran("c0a1s1", 11.5, 14)], 2) == []


@pytest.mark.parametrize("moment", [11.2, 11.5 - SETTLED_S / 2], ids=["between", "just before"])
def test_who_generated_when_something_happened_is_left_out(moment: float) -> None:
    assert found(THREE, 2, [moment]) == []


def test_after_something_happened_the_window_holds_again() -> None:
    assert len(found(THREE, 2, [9.0])) == len(found(THREE, 2, [13.5])) == 1


def test_steps_without_control_are_left_out() -> None:
    assert found(THREE, 2, lost=[11.4], back=[11.6]) == []
    assert found(THREE, 2, lost=[11.4]) == []
    assert len(found(THREE, 2, lost=[5.0], back=[6.0])) == 1


def test_a_try_within_a_step_from_before_is_left_out() -> None:
    notes = notes_of(*THREE)
    notes.granted["c0a2", 0, 0] = 8.0
    assert list(above_window(THREE, [notes], 2, [9.0])) == []


def test_a_family_whose_seat_is_from_before_is_left_out() -> None:
    those = [ran("c0a0s0", 8, 12), ran("c0a0s1", 11, 13), ran("c0a1", 11, 13), ran("c0a2", 11, 13)]
    assert found(those, 2, [9.0]) == []
    assert len(found(those, 1, [9.0])) == 1


def test_tries_that_nobody_waited_for_are_left_out() -> None:
    notes = notes_of(*THREE)
    notes.done.discard(("c0a2", 0, 0))
    assert list(above_window(THREE, [notes], 2, [])) == []


# --- who was taken to be gone ---


def lost(*faults: Fault, at_s: float = 10.0, lags: list[float] | None = None, **more: Any) -> list[str]:
    """What is wrong with a worker that lost the controller then, when all faults had begun a second before."""
    notes = WorkerNotes(lost=[at_s], back=[at_s + 1], **more)
    return list(links([notes], faults, dict.fromkeys(range(len(faults)), at_s - 1), lags or []))


@pytest.mark.parametrize(
    "fault",
    [
        Fault(at_s=0, kind="kill controller"),
        Fault(at_s=0, kind="end controller"),
        Fault(at_s=0, kind="stop controller", lasts_s=PATIENCE_S + 1),
        Fault(at_s=0, kind="cut-off worker", who=0, lasts_s=LONG),
        Fault(at_s=0, kind="hold-up worker", who=0, lasts_s=LONG),
    ],
    ids=str,
)
def test_a_controller_may_be_lost_that_was_gone(fault: Fault) -> None:
    assert lost(fault) == []
    assert lost(fault, at_s=10) == []
    (problem,) = links([WorkerNotes(lost=[5.0], back=[6.0])], [fault], {0: 9.0}, [])
    assert problem == "worker 0 took the controller to be gone at 5.000, and it was not"


@pytest.mark.parametrize(
    "fault",
    [
        Fault(at_s=0, kind="stop worker", who=0, lasts_s=LONG),
        Fault(at_s=0, kind="jump-clock worker", who=0, by_s=3600),
        Fault(at_s=0, kind="jump-clock everybody", by_s=3600),
        Fault(at_s=0, kind="stop controller", lasts_s=0.5),
        Fault(at_s=0, kind="cut connections"),
        Fault(at_s=0, kind="cut-off worker", who=1, lasts_s=LONG),
        Fault(at_s=0, kind="kill engine"),
    ],
    ids=str,
)
def test_a_controller_that_was_there_must_not_be_lost(fault: Fault) -> None:
    assert len(lost(fault)) == 1


def test_a_machine_that_did_not_keep_up_excuses_it() -> None:
    assert lost(lags=[9.0]) == []
    assert len(lost(lags=[1.0])) == 1


def test_what_is_said_twice_or_beside_that_is_found() -> None:
    kill = Fault(at_s=0, kind="kill controller")
    assert lost(kill, muddled=True) == [
        "worker 0 said twice running that the controller is gone, or back: [(10.0, 11.0)]"
    ]
    assert lost(kill, others=["the controller refused"]) == ["worker 0 warned: the controller refused"]


@pytest.mark.parametrize("kind", ["kill worker", "stop worker", "cut-off worker", "hold-up worker"])
def test_a_worker_that_was_gone_may_lose_its_lease(kind: str) -> None:
    fault = Fault(at_s=0, kind=kind, who=0, lasts_s=LONG)
    log, notes = NOBODY.format(77), [WorkerNotes()]
    assert list(unheard_of(log, [77], notes, [fault], {0: 1.0})) == []
    assert len(list(unheard_of(log, [77], notes, [fault], {}))) == 1


def test_a_worker_that_was_there_must_not_lose_its_lease() -> None:
    fault = Fault(at_s=0, kind="stop controller", lasts_s=LONG)
    log, both = NOBODY.format(78), [WorkerNotes(), WorkerNotes()]
    assert list(unheard_of(log, [77, 78], both, [fault], {0: 1.0})) == ["worker 1 was there, and its lease lapsed"]
    assert len(list(unheard_of(log, [1], both, [fault], {0: 1.0}))) == 1
    assert list(unheard_of("readings are back", [77, 78], both, [fault], {0: 1.0})) == []


# --- notes ---


def test_notes_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    with Notebook(path) as notes:
        notes.of_agent("c0a0", "seated")
        notes.of_agent("c0a0", "begun", step=0, attempt=0)
        notes.of_agent("c0a0", "begun", step=0, attempt=1)
        notes.of_agent("c0a0", "done", step=0, attempt=1, prompt=70)
    read = read_notes(path)
    assert read.granted.keys() == {("c0a0", 0, 0), ("c0a0", 0, 1)}
    assert read.granted["c0a0", 0, 0] == read.granted["c0a0", 0, 1]
    assert (read.done, read.twice, read.prompt_tokens) == ({("c0a0", 0, 1)}, [], 70)
    with Notebook(path) as notes:
        notes.of_agent("c0a0", "done", step=0, attempt=1, prompt=70)
    assert read_notes(path).twice == ["c0a0 step 0"]


def warnings(*said: tuple[float, str]) -> str:
    return "".join(json.dumps({"at_s": at_s, "warning": what}) + "\n" for at_s, what in said)


def test_going_without_control_is_read_from_what_is_said(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    gone, back = "the controller at x cannot be asked (refused): agents ...", "the controller at x is back"
    path.write_text(warnings((1, gone), (2, back), (5, gone)) + '{"at_')
    read = read_notes(path)
    assert [read.in_control(at_s) for at_s in (0, 1, 1.9, 2, 4, 5, 99)] == [
        True,
        False,
        False,
        True,
        True,
        False,
        False,
    ]
    assert (read.muddled, read.others) == (False, [])
    path.write_text(warnings((1, gone), (2, gone), (3, "a bug")))
    assert (read_notes(path).muddled, read_notes(path).others) == (True, ["a bug"])
    path.write_text(warnings((1, back)))
    assert read_notes(path).muddled
    assert read_notes(tmp_path / "none").done == set()
