"""Where agents are placed, when they move, and that nothing moves them otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from concur_agents.fleet import EngineLoad, Fleet, Move

REFILL = 20.0
BUSY = EngineLoad(waiting=3, seated=4, held=900.0, tokens=1000.0, capacity=1000.0, refill_s=REFILL)
IDLE = EngineLoad(tokens=1000.0, capacity=1000.0, refill_s=REFILL)


def fleet(*engines: str, **loads: EngineLoad) -> Fleet:
    one = Fleet()
    for engine in engines or tuple(loads):
        one.join(engine)
    for engine, load in loads.items():
        one.report(engine, load)
    return one


def queueing(agents: str = "xyz") -> Fleet:
    """Everyone is on ``a``, three of them waiting; ``b`` has just joined and is idle."""
    one = fleet("a", a=BUSY)
    for agent in "stuv" + agents:
        one.place(agent)
    one.join("b")
    one.report("b", IDLE)
    return one


# --- placing ---


def test_new_agents_go_where_the_fewest_are_while_pools_are_unknown() -> None:
    one = fleet("a", "b", "c")
    assert [one.place(agent) for agent in "123456"] == ["a", "b", "c", "a", "b", "c"]


def test_new_agents_go_by_what_pools_can_hold() -> None:
    one = fleet(a=EngineLoad(capacity=3000.0), b=EngineLoad(capacity=1000.0))
    for number in range(40):
        one.place(str(number))
    assert (one.agents("a"), one.agents("b")) == (30, 10)


def test_held_contexts_weigh_and_young_ones_weigh_as_much_as_they_are_going_to() -> None:
    one = fleet(a=EngineLoad(capacity=1000.0), b=EngineLoad(capacity=1000.0))
    assert [one.place(agent) for agent in "1234"] == ["a", "b", "a", "b"]
    for agent, context in (("1", 300.0), ("2", 10.0), ("3", 300.0), ("4", 10.0)):
        one.stepped(agent, context, 0.0)
    assert one.pressures()["a"] > one.pressures()["b"]
    assert one.pressures()["b"] == pytest.approx(0.31)  # two agents of the mean length, not of their own
    assert one.place("5") == "b"


def test_a_pool_of_unknown_size_has_agents_counted() -> None:
    one = fleet(a=EngineLoad(capacity=1e6), b=EngineLoad())
    assert [one.place(agent) for agent in "1234"] == ["a", "b", "a", "b"]


def test_sub_agents_are_placed_with_their_parents_whatever_else_is_free() -> None:
    one = fleet("a", "b")
    one.place("parent")
    one.place("other")
    assert one.place("child", "parent") == "a"
    assert one.place("grandchild", "child") == "a"
    assert one.place("orphan", "nobody") == "b"


def test_placing_twice_is_placing_once() -> None:
    one = fleet("a", "b")
    assert one.place("1") == one.place("1") == one.at("1") == "a"
    assert one.agents("a") == 1


@pytest.mark.parametrize("what", ["down", "draining"])
def test_who_takes_no_agents_gets_none(what: str) -> None:
    one = fleet("a", "b")
    if what == "down":
        one.mark("a", down=True)
    else:
        one.drain("a")
    assert [one.place(agent) for agent in "12"] == ["b", "b"]
    assert one.any() == "b"
    assert not one.accepts("a")
    one.join("a")
    one.mark("a", down=False)
    assert one.place("3") == "a"


def test_agents_are_placed_even_where_no_engine_takes_any() -> None:
    one = fleet("a", "b")
    one.mark("a", down=True)
    one.drain("b")
    assert one.place("1") == "b"  # it is there, at least
    one.mark("b", down=True)
    assert one.place("2") in ("a", "b")


def test_without_engines_there_is_no_place() -> None:
    with pytest.raises(LookupError):
        Fleet().place("1")
    with pytest.raises(LookupError):
        Fleet().any()


def test_who_has_ended_weighs_nothing() -> None:
    one = fleet(a=EngineLoad(capacity=1000.0))
    one.place("1")
    one.place("2", "1")
    one.stepped("1", 500.0, 0.0)
    for agent in ("1", "2", "2", "unknown"):
        one.forget(agent)
    one.stepped("1", 500.0, 0.0)
    assert (one.agents("a"), one.pressures()["a"], one.at("1")) == (0, 0.0, None)


# --- steps ---


def test_an_agent_stays_where_its_prefix_is() -> None:
    one = fleet(a=IDLE, b=IDLE)
    for number in range(10):
        one.place(str(number))
    where = {str(number): one.at(str(number)) for number in range(10)}
    one.report("a", BUSY)
    assert {agent: one.next(agent, 1e6) for agent in where} == where


@pytest.mark.parametrize("what", ["down", "draining", "gone"])
def test_agents_of_an_engine_that_goes_move_at_their_next_steps_and_spread(what: str) -> None:
    one = fleet("a", "b", "c")
    for number in range(12):
        one.place(str(number))
    theirs = [agent for agent in map(str, range(12)) if one.at(agent) == "a"]
    match what:
        case "down":
            one.mark("a", down=True)
        case "draining":
            one.drain("a")
        case _:
            one.leave("a")
    assert [one.at(agent) for agent in theirs] == ["a"] * 4  # nobody moves by himself
    assert sorted(one.next(agent, 1.0) for agent in theirs) == ["b", "b", "c", "c"]
    assert one.agents("a") == 0


def test_where_no_other_engine_takes_agents_they_stay() -> None:
    one = fleet("a", "b")
    one.place("1")
    one.mark("a", down=True)
    one.mark("b", down=True)
    assert one.next("1", 0.0) == "a"
    assert one.elsewhere("1") is None
    one.mark("b", down=False)
    assert one.elsewhere("1") == "b"
    assert one.at("1") == "a"  # the caller's to carry out
    one.move("1", "b", 0.0)
    assert one.next("1", 0.0) == "b"


def test_an_engine_that_is_being_drained_is_better_than_one_that_is_down() -> None:
    one = fleet("a", "b")
    one.place("1")
    one.drain("b")
    assert one.next("1", 0.0) == "a"
    one.mark("a", down=True)
    assert one.elsewhere("1") == one.next("1", 0.0) == "b"
    assert one.next("1", 1.0) == "b"


def test_one_that_moved_away_from_a_dead_engine_does_not_go_back_when_it_lives_again() -> None:
    one = fleet("a", "b")
    one.place("1")
    one.mark("a", down=True)
    assert one.next("1", 0.0) == "b"
    one.mark("a", down=False)
    assert one.next("1", 1e6) == "b"
    assert one.place("2") == "a"  # but it gets work again


def test_a_family_moves_together_each_at_its_own_next_step() -> None:
    one = fleet("a", "b")
    one.place("parent")
    one.place("child", "parent")
    one.mark("a", down=True)
    assert one.next("child", 0.0) == "b"
    assert one.at("parent") == "b"
    assert one.next("parent", 0.0) == "b"
    assert (one.agents("a"), one.agents("b")) == (0, 2)


def test_a_child_whose_parent_has_ended_stays() -> None:
    one = fleet("a", "b")
    one.place("parent")
    one.place("child", "parent")
    one.forget("parent")
    assert one.next("child", 0.0) == "a"


# --- stealing ---


def test_who_never_ran_is_stolen_for_an_idle_engine() -> None:
    one = queueing()
    moves = one.steal(["x", "y", "z"], 0.0)
    assert moves[:2] == [Move("x", "a", "b"), Move("y", "a", "b")]
    assert one.at("x") == "a"  # the caller's to carry out
    for move in moves:
        one.move(move.agent_id, move.target, 0.0)
    assert (one.agents("a"), one.agents("b")) == (7 - len(moves), len(moves))


def test_stealing_ends_before_the_thief_is_the_poorer_one() -> None:
    one = queueing("uvwxyz")
    one.report("a", EngineLoad(waiting=50, seated=1, capacity=1000.0))
    moved = one.steal("uvwxyz", 0.0)
    for move in moved:
        one.move(move.agent_id, move.target, 0.0)
    assert abs(one.agents("a") - one.agents("b")) <= 1


def test_a_prefix_that_may_still_be_cached_is_not_left_behind() -> None:
    one = queueing("x")
    one.stepped("x", 100.0, 50.0)
    assert one.steal(["x"], 50.0 + REFILL - 0.1) == []
    assert one.steal(["x"], 50.0 + REFILL) == [Move("x", "a", "b")]


def test_who_never_ran_goes_before_who_has_something_to_lose() -> None:
    one = queueing("xy")
    one.report("b", EngineLoad(window=1.0, capacity=1000.0))  # room for one
    one.stepped("x", 100.0, 0.0)
    assert one.steal(["x", "y"], REFILL) == [Move("y", "a", "b")]


def test_nobody_is_stolen_twice_within_a_refill() -> None:
    one = queueing("x")
    one.move("x", "b", 0.0)
    one.report("b", BUSY)
    one.report("a", IDLE)
    assert one.steal(["x"], REFILL - 0.1) == []
    for agent in "12345678":
        one.place(agent)
        one.move(agent, "b", 0.0)
    assert one.steal(["x"], REFILL) == [Move("x", "b", "a")]


def test_while_the_refill_is_unknown_half_a_minute_is_waited() -> None:
    one = queueing("x")
    one.report("a", EngineLoad(waiting=3, seated=4, capacity=1000.0))
    one.stepped("x", 100.0, 0.0)
    assert one.steal(["x"], 29.9) == []
    assert one.steal(["x"], 30.0) == [Move("x", "a", "b")]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (EngineLoad(seated=4, capacity=1000.0), IDLE),  # nobody waits where it is
        (BUSY, EngineLoad(waiting=1, capacity=1000.0)),  # or somebody waits there too
        (BUSY, EngineLoad(seated=5, window=5.0, capacity=1000.0)),  # or there is no seat
        (BUSY, EngineLoad(held=950.0, tokens=1000.0, capacity=1000.0)),  # or no room
        (BUSY, EngineLoad(held=950.0, capacity=1000.0)),
    ],
)
def test_nobody_moves_where_it_would_not_pay(source: EngineLoad, target: EngineLoad) -> None:
    one = queueing("x")
    one.stepped("x", 100.0, 0.0)
    one.report("a", source)
    one.report("b", target)
    assert one.steal(["x"], 1e6) == []


@pytest.mark.parametrize("what", ["down", "draining"])
def test_nobody_is_stolen_for_an_engine_that_takes_none(what: str) -> None:
    one = queueing("x")
    if what == "down":
        one.mark("b", down=True)
    else:
        one.drain("b")
    assert one.steal(["x"], 1e6) == []


def test_families_are_not_torn_apart() -> None:
    one = queueing("x")
    one.place("child", "x")
    assert one.steal(["x", "child", "unknown"], 1e6) == []
    one.forget("child")
    assert one.steal(["x"], 1e6) == [Move("x", "a", "b")]


def test_proposals_that_are_not_carried_out_change_nothing() -> None:
    one = queueing()
    one.stepped("x", 100.0, 0.0)
    before = one.pressures(), [one.at(agent) for agent in "xyz"]
    first = one.steal("xyz", REFILL)
    assert (one.pressures(), [one.at(agent) for agent in "xyz"]) == before
    one.report("a", BUSY)
    one.report("b", IDLE)
    assert one.steal("xyz", REFILL) == first


def test_an_engine_that_leaves_and_joins_again_is_another_one() -> None:
    one = fleet("a", "b")
    one.place("1")
    one.leave("a")
    one.join("a")
    one.place("2")
    assert (one.agents("a"), one.agents("b")) == (0, 1)
    assert one.next("1", 0.0) == "a"
    assert one.agents("a") == 1
    assert one.engines == ("b", "a")


@pytest.mark.parametrize(
    "call",
    [
        lambda one: one.drain("x"),
        lambda one: one.leave("x"),
        lambda one: one.mark("x", down=True),
        lambda one: one.report("x", IDLE),
        lambda one: one.next("x", 0.0),
        lambda one: one.move("1", "x", 0.0),
        lambda one: one.move("x", "a", 0.0),
    ],
)
def test_what_is_not_known_is_said_to_be(call: Callable[[Fleet], object]) -> None:
    one = fleet("a")
    one.place("1")
    with pytest.raises(KeyError):
        call(one)
    assert not one.accepts("x")
    assert not one.draining("x")
    assert one.agents("x") == 0
    assert math.isfinite(one.pressures()["a"])
