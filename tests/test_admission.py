"""The admission state machine, rule by rule (``test_admission_machine.py`` has them all at once)."""

from __future__ import annotations

import math

import pytest

from concur_agents.admission import Admission
from concur_agents.errors import UnknownAgentError
from concur_agents.samples import NO_GROWTH, AgentState, Growth


def admitted(admission: Admission, *agents: str) -> list[bool]:
    return [admission.request(agent) for agent in agents]


def test_window_limits_seats_and_a_pause_keeps_the_seat() -> None:
    admission = Admission(2)
    assert admitted(admission, "a", "b", "c") == [True, True, False]
    admission.pause("a")
    assert admission.take_granted() == []
    assert admission.state("a") is AgentState.IN_TOOL
    assert admission.state("c") is AgentState.WAITING


def test_third_agent_is_admitted_only_when_one_of_two_completes() -> None:
    """The paper's Figure 2."""
    admission = Admission(2)
    admitted(admission, "a", "b", "c")
    admission.pause("b")
    admission.finish("b")
    assert admission.take_granted() == ["c"]


@pytest.mark.parametrize("window", [0.0, -3.0, -math.inf, 0.4, 1.0, 1.9])
def test_any_window_below_two_seats_one(window: float) -> None:
    admission = Admission(window)
    assert admitted(admission, "a", "b") == [True, False]


def test_window_that_is_no_number_is_refused_by_value() -> None:
    with pytest.raises(ValueError, match="window must be a number of agents, got nan"):
        Admission(math.nan)


def test_no_limit_seats_everyone() -> None:
    admission = Admission(math.inf)
    assert all(admitted(admission, *map(str, range(1000))))
    assert admission.over == 0


def test_asking_again_changes_nothing() -> None:
    admission = Admission(1)
    assert admitted(admission, "a", "a", "b", "b") == [True, True, False, False]
    assert admission.population().waiting == 1


def test_shrink_parks_the_youngest_in_tools_at_once() -> None:
    admission = Admission()
    for agent in "abcd":
        admission.request(agent)
        admission.pause(agent)
    admission.set_window(2)
    assert [admission.state(agent) for agent in "abcd"] == [AgentState.IN_TOOL] * 2 + [AgentState.PARKED] * 2


def test_shrink_waits_for_the_boundary_of_a_generation() -> None:
    admission = Admission()
    admitted(admission, "a", "b")
    admission.set_window(1)
    assert admission.state("b") is AgentState.GENERATING
    assert admission.over == 1
    admission.pause("b")
    assert admission.state("b") is AgentState.PARKED
    assert admission.over == 0


def test_seat_freed_below_a_shrunken_window_spares_the_oldest_marked() -> None:
    admission = Admission()
    admitted(admission, "a", "b", "c")
    admission.set_window(1)
    admission.finish("a")
    assert admission.pause("b")
    assert admission.pause("c")
    assert admission.state("b") is AgentState.IN_TOOL
    assert admission.state("c") is AgentState.PARKED


def test_window_that_grows_back_spares_the_marked() -> None:
    admission = Admission()
    admitted(admission, "a", "b")
    admission.set_window(1)
    admission.set_window(2)
    admission.pause("b")
    assert admission.state("b") is AgentState.IN_TOOL


def test_the_oldest_goes_first_whether_parked_or_new_and_whenever_it_asked() -> None:
    admission = Admission()
    admitted(admission, "old", "p1", "p2")
    admission.set_window(1)
    admission.pause("p1")
    admission.pause("p2")
    admitted(admission, "n1", "n2", "p2", "p1")
    assert admission.state("p1") is AgentState.RETURNING
    admission.set_window(5)
    assert admission.take_granted() == ["p1", "p2", "n1", "n2"]


def test_a_younger_one_does_not_take_the_room_that_the_oldest_in_line_needs_more_of() -> None:
    admission = budget(60, 50, tokens=100)
    assert states(admission) == "a:in_tool b:parked"
    admission.expect(10)
    assert admitted(admission, "b", "small") == [False, False]
    admission.weigh("a", 45)
    assert admission.take_granted() == ["b"]
    assert states(admission) == "a:in_tool b:generating small:waiting"


def test_an_older_one_may_take_the_room_that_a_younger_one_waits_for_more_of() -> None:
    admission = budget(30, 40, 80, tokens=100)
    admission.park("b")
    assert admitted(admission, "c", "b") == [False, True]


def test_age_survives_parking() -> None:
    admission = Admission()
    admitted(admission, "first", "second")
    admission.park("first")
    admission.request("first")
    admission.pause("first")
    admission.pause("second")
    admission.set_window(1)
    assert admission.state("first") is AgentState.IN_TOOL
    assert admission.state("second") is AgentState.PARKED


def test_sub_agents_share_the_seat_of_their_ancestor_at_window_one() -> None:
    admission = Admission(1)
    admission.request("parent")
    admission.pause("parent")
    assert admission.request("child", "parent")
    admission.pause("child")
    assert admission.request("grandchild", "child")
    assert admission.population().seated == 1


def test_parent_that_steps_late_shares_the_seat_of_the_sub_agent_it_opened_before() -> None:
    admission = Admission(1)
    assert admission.request("child", "parent")
    admission.pause("child")
    assert admission.request("parent")
    assert admission.parent("child") == "parent"
    assert admission.finish("parent") == ("child", "parent")
    assert admission.population().seated == 0


def test_sub_agents_of_a_driver_that_never_steps_have_seats_of_their_own() -> None:
    admission = Admission(1)
    assert [admission.request(child, "driver") for child in ("a", "b")] == [True, False]
    admission.finish("a")
    assert admission.take_granted() == ["b"]


def test_orphan_that_ended_is_not_adopted() -> None:
    admission = Admission(1)
    admission.request("child", "parent")
    admission.finish("child")
    admission.request("other")
    assert not admission.request("parent")


def test_family_that_adopted_its_parent_is_reported_parked_by_it() -> None:
    admission = Admission()
    admission.request("older")
    admission.request("child", "parent")
    admission.pause("child")
    admission.request("parent")
    admission.pause("parent")
    admission.set_window(1)
    assert admission.take_parked() == ["parent"]


def test_family_parks_only_when_none_of_it_generates() -> None:
    admission = Admission()
    admission.request("older")
    for agent, parent in (("p", None), ("c1", "p"), ("c2", "p")):
        admission.request(agent, parent)
    admission.pause("p")
    admission.set_window(1)
    admission.pause("c1")
    assert admission.state("c2") is AgentState.GENERATING
    admission.pause("c2")
    assert {admission.state(agent) for agent in ("p", "c1", "c2")} == {AgentState.PARKED}


def test_a_parked_familys_members_return_together() -> None:
    admission = Admission()
    for agent, parent in (("older", None), ("p", None), ("c1", "p"), ("c2", "p")):
        admission.request(agent, parent)
        admission.pause(agent)
    admission.set_window(1)
    assert not admission.request("c1")
    assert not admission.request("c2")
    admission.finish("older")
    assert admission.take_granted() == ["c1", "c2"]


def test_finish_ends_sub_agents_first_and_is_idempotent() -> None:
    admission = Admission(1)
    for agent, parent in (("p", None), ("c", "p"), ("g", "c")):
        admission.request(agent, parent)
    admission.request("next")
    assert admission.finish("p") == ("g", "c", "p")
    assert admission.finish("p") == ()
    assert admission.take_granted() == ["next"]
    assert list(admission) == ["next"]


def test_child_that_finishes_leaves_the_seat_to_its_parent() -> None:
    admission = Admission(1)
    admission.request("p")
    admission.pause("p")
    admission.request("c", "p")
    admission.finish("c")
    assert admission.state("p") is AgentState.IN_TOOL


def test_a_very_deep_family_finishes_without_recursion() -> None:
    admission = Admission(1)
    admission.request("0")
    for depth in range(1, 5000):
        admission.request(str(depth), str(depth - 1))
    assert len(admission.finish("0")) == 5000
    assert len(admission) == 0


def test_withdrawing_a_queued_request_leaves_no_trace_of_a_new_agent() -> None:
    admission = Admission(1)
    admitted(admission, "a", "b", "c")
    admission.withdraw("b")
    assert "b" not in admission
    admission.finish("a")
    assert admission.take_granted() == ["c"]


def test_withdrawing_a_request_that_will_be_made_again_keeps_its_age() -> None:
    admission = Admission(1)
    for agent in "abc":
        admission.request(agent)
    admission.withdraw("b", keep=True)
    assert admission.state("b") is AgentState.PARKED
    assert admission.population().waiting == 1
    admission.request("b")
    admission.finish("a")
    assert admission.take_granted() == ["b"]


def test_withdrawing_a_grant_gives_the_seat_to_the_next() -> None:
    admission = Admission(1)
    admitted(admission, "a", "b", "c")
    admission.finish("a")
    assert admission.take_granted() == ["b"]
    admission.withdraw("b")
    assert admission.take_granted() == ["c"]
    assert "b" not in admission


def test_withdrawing_returns_a_parked_agent_to_parked() -> None:
    admission = Admission(1)
    admission.request("a")
    admission.park("a")
    admitted(admission, "b", "a")
    admission.withdraw("a")
    assert admission.state("a") is AgentState.PARKED


def test_withdrawing_the_request_a_family_came_back_for_gives_its_seat_to_the_next() -> None:
    admission = Admission(1)
    admission.request("parent")
    admission.park("parent")
    admitted(admission, "holder", "next")
    admission.request("child", "parent")
    admission.finish("holder")
    assert admission.take_granted() == ["child"]
    admission.withdraw("child")
    assert admission.take_granted() == ["next"]
    assert admission.state("parent") is AgentState.PARKED


def test_withdrawing_on_a_seat_that_was_kept_keeps_it() -> None:
    admission = Admission(1)
    admission.request("parent")
    admission.pause("parent")
    admission.request("child", "parent")
    admission.withdraw("child")
    admission.request("parent")
    admission.withdraw("parent")
    assert admission.state("parent") is AgentState.IN_TOOL
    assert list(admission) == ["parent"]


def test_withdrawn_agent_with_sub_agents_stays_known_until_it_finishes() -> None:
    admission = Admission(1)
    admitted(admission, "holder", "parent")
    admission.request("child", "parent")
    admission.withdraw("parent")
    assert "parent" in admission
    assert admission.finish("parent") == ("child", "parent")


def test_parked_families_are_told_in_order_and_once() -> None:
    admission = Admission()
    for agent in "abcd":
        admission.request(agent)
    admission.pause("b")
    admission.pause("c")
    admission.set_window(1)
    assert admission.take_parked() == ["c", "b"]
    admission.pause("d")
    assert admission.take_parked() == ["d"]
    assert admission.take_parked() == []


def test_finishing_and_withdrawing_above_the_window_are_no_parking() -> None:
    admission = Admission(1)
    admitted(admission, "a", "b", "c")
    admission.pause("a")
    admission.set_window(3)
    admission.pause("b")
    admission.request("b")
    admission.set_window(1)
    admission.finish("b")
    admission.withdraw("c")
    assert admission.take_parked() == []
    assert list(admission) == ["a"]


@pytest.mark.parametrize("operation", ["pause", "park", "state", "parent"])
def test_operations_on_unknown_agents_name_the_agent(operation: str) -> None:
    with pytest.raises(UnknownAgentError, match="'ghost' was never admitted"):
        getattr(Admission(), operation)("ghost")


def test_an_id_may_be_used_again_after_its_agent_finished() -> None:
    admission = Admission(1)
    admission.request("a")
    admission.finish("a")
    assert admission.request("a")


# --- a token budget ---


def budget(*held: float, tokens: float, growth: Growth = NO_GROWTH) -> Admission:
    """Agents a, b, c, ... in a tool, oldest first, that hold so much."""
    admission = Admission()
    for agent, each in zip("abcdef", held, strict=False):
        admission.request(agent)
        admission.weigh(agent, each)
        admission.pause(agent)
    admission.set_window(math.inf, tokens=tokens, growth=growth)
    return admission


def states(admission: Admission) -> str:
    return " ".join(f"{agent}:{admission.state(agent)}" for agent in admission)


def test_a_seat_is_granted_while_the_budget_holds_it() -> None:
    admission = budget(30, 30, tokens=100)
    admission.expect(40)
    assert admission.request("c")
    assert not admission.request("d")
    assert admission.population().held == 100


def test_who_grows_beyond_the_budget_parks_the_youngest_at_its_boundary() -> None:
    admission = budget(40, 30, 30, tokens=100)
    admission.request("b")
    admission.weigh("b", 60)
    assert states(admission) == "a:in_tool b:generating c:parked"
    assert admission.take_parked() == ["c"]
    admission.weigh("b", 70)  # still generating: it is told at its boundary
    assert (states(admission), admission.over) == ("a:in_tool b:generating c:parked", 1)
    admission.pause("b")
    assert (states(admission), admission.over) == ("a:in_tool b:parked c:parked", 0)


def test_the_oldest_is_never_parked_however_much_it_holds() -> None:
    admission = budget(500, 1, tokens=100)
    assert states(admission) == "a:in_tool b:parked"


def test_one_seat_is_granted_whatever_it_needs() -> None:
    admission = budget(tokens=100)
    admission.expect(1000)
    assert admission.request("a")
    assert not admission.request("b")


def test_room_is_kept_for_growth() -> None:
    admission = budget(40, tokens=100, growth=Growth(seated=20, each=15))
    admission.expect(10)
    assert admission.request("b")  # 50 held, 20 and 15 to come
    assert not admission.request("c")  # 60, 20 and twice 15


def test_each_sample_says_the_growth_anew() -> None:
    admission = budget(40, tokens=100, growth=Growth(seated=20, each=15))
    admission.expect(10)
    admission.request("b")
    admission.request("c")
    admission.set_window(math.inf, tokens=100, growth=Growth(seated=20, each=15))
    assert states(admission) == "a:in_tool b:generating c:generating"


def test_who_is_to_be_parked_is_marked_a_step_ahead() -> None:
    """It leaves at its boundary, and the others have grown by then."""
    admission = budget(40, 40, tokens=100, growth=Growth(step=15))
    assert admission.over == 0
    for agent in "ab":
        admission.request(agent)
    admission.set_window(math.inf, tokens=100, growth=Growth(step=25))
    assert admission.over == 1
    assert states(admission) == "a:generating b:generating"
    admission.pause("b")
    assert states(admission) == "a:generating b:parked"
    admission.set_window(math.inf, tokens=100, growth=Growth(step=1e9))
    assert admission.state("a") is AgentState.GENERATING  # one seat always is


def test_who_waits_is_seated_when_a_new_one_turns_out_to_need_less() -> None:
    admission = budget(40, tokens=100)
    admission.expect(70)
    assert not admission.request("b")
    assert not admission.request("child", "b")
    admission.expect(60)
    assert admission.take_granted() == ["b", "child"]
    assert admission.population().held == 100


def test_the_parked_wait_for_room_with_their_growth_and_go_before_younger_ones() -> None:
    admission = budget(40, 30, 50, tokens=100, growth=Growth(seated=15))
    assert states(admission) == "a:in_tool b:in_tool c:parked"
    admission.expect(10)
    assert not admission.request("c")
    assert not admission.request("d")
    admission.finish("b")
    assert states(admission) == "a:in_tool c:returning d:waiting"  # 90 held, and 15 to come
    admission.weigh("a", 30)
    assert states(admission) == "a:in_tool c:generating d:waiting"


def test_a_family_holds_what_its_members_hold() -> None:
    admission = budget(40, tokens=100)
    admission.request("child", "a")
    admission.weigh("child", 50)
    assert admission.population().held == 90
    admission.finish("child")
    assert admission.population().held == 40


def test_a_budget_that_grows_back_spares_the_marked() -> None:
    admission = budget(40, 30, 30, tokens=100)
    for agent in "abc":
        admission.request(agent)
    admission.set_window(math.inf, tokens=50)
    assert admission.over == 2
    admission.set_window(math.inf, tokens=80)
    assert admission.over == 1
    for agent in "abc":
        admission.pause(agent)
    assert states(admission) == "a:in_tool b:in_tool c:parked"


@pytest.mark.parametrize("tokens", [math.nan])
def test_budget_that_is_no_number_is_refused_by_value(tokens: float) -> None:
    with pytest.raises(ValueError, match="tokens must be a number of tokens, got nan"):
        Admission().set_window(8, tokens=tokens)


def test_agents_that_are_gone_are_let_go() -> None:
    admission = Admission(2)
    for number in range(1000):
        admission.request(f"agent{number}")
        admission.pause(f"agent{number}")
        admission.finish(f"agent{number}")
    for ages in (admission._waiting, admission._keeping, admission._marked):
        assert len(ages._heap) < 100


def test_one_that_was_to_lose_its_seat_keeps_it_when_it_is_the_oldest_left() -> None:
    admission = budget(100, 60, tokens=1000)
    admitted(admission, "a", "b")
    admission.set_window(math.inf, tokens=50)
    assert admission.over == 1
    admission.finish("a")
    assert admission.over == 0
    admission.pause("b")
    assert states(admission) == "b:in_tool"


def test_room_that_a_sub_agent_leaves_goes_to_those_who_have_seats_first() -> None:
    admission = budget(40, 60, tokens=150)
    admission.request("child", "a")
    admission.weigh("child", 50)
    admission.request("b")
    admission.set_window(math.inf, tokens=100)
    assert admission.over == 1  # b, at its boundary
    assert not admission.request("new")
    admission.finish("child")
    admission.pause("b")
    assert states(admission) == "a:in_tool b:in_tool new:generating"


# --- seats for those who wait, from those who are long in their tools ---


def idle(*since: float, window: float = math.inf) -> Admission:
    """Agents a, b, c, ... in a tool since then."""
    admission = Admission(window)
    for agent, at in zip("abcdef", since, strict=False):
        admission.request(agent)
        admission.pause(agent, at)
    return admission


def test_nobody_gives_up_its_seat_while_nobody_waits() -> None:
    admission = idle(1, 2, 3, window=3)
    admission.give_up_idle(100)
    assert states(admission) == "a:in_tool b:in_tool c:in_tool"


def test_who_is_longest_in_its_tool_gives_up_its_seat_to_one_that_waits() -> None:
    admission = idle(3, 1, 2, window=3)
    admission.request("new")
    admission.give_up_idle(100)
    assert admission.take_granted() == ["new"]
    assert admission.take_parked() == ["b"]
    assert states(admission) == "a:in_tool b:parked c:in_tool new:generating"


def test_nobody_gives_up_its_seat_that_is_in_its_tool_for_no_longer_than_that() -> None:
    admission = idle(3, 1, 2, window=3)
    admission.request("new")
    admission.give_up_idle(1)
    assert states(admission) == "a:in_tool b:in_tool c:in_tool new:waiting"


def test_as_many_give_up_their_seats_as_those_who_wait_need_and_no_more() -> None:
    admission = budget(30, 30, 30, tokens=100)
    admission.expect(50)
    assert not admission.request("new")
    admission.give_up_idle(100)
    assert states(admission) == "a:parked b:parked c:in_tool new:generating"


def test_who_generates_never_gives_up_its_seat_nor_does_its_family() -> None:
    admission = idle(1, 2, window=2)
    admission.request("child", "a")
    admission.request("b")
    admission.request("new")
    admission.give_up_idle(100)
    assert states(admission) == "a:in_tool b:generating child:generating new:waiting"


def test_a_family_is_in_its_tools_since_its_last_generation_ended_however_that_was() -> None:
    admission = idle(1, 5, window=2)
    admission.request("child", "a")
    admission.finish("child", 9)
    admission.request("new")
    admission.give_up_idle(7)
    assert states(admission) == "a:in_tool b:parked new:generating"


def test_who_gave_up_its_seat_is_first_in_line_by_age_when_it_returns() -> None:
    admission = idle(1, 2, window=2)
    admitted(admission, "new", "newer")
    admission.give_up_idle(1.5)
    assert states(admission) == "a:parked b:in_tool new:generating newer:waiting"
    assert not admission.request("a")
    admission.finish("b")
    assert states(admission) == "a:generating new:generating newer:waiting"
