"""Where agents are, as the directory knows it."""

import pytest

from concur_agents.fleet.board import Board
from concur_agents.fleet.load import EngineLoad
from concur_agents.fleet.words import AgentReport, ShardReport

LATER = 100.0


def board(*engines: str) -> Board:
    made = Board()
    for engine in engines:
        made.join(engine)
    return made


def agent(name: str, *, steps: int = 1, waiting: bool = False, parent: str | None = None) -> AgentReport:
    return AgentReport(name, parent, steps, 1000.0, waiting)


def says(engine: str, *agents: AgentReport, up: bool = True, **load: float) -> ShardReport:
    return ShardReport(engine, EngineLoad(**load), up, agents)


def test_new_agents_go_where_fewest_are_and_stay_there():
    one = board("a", "b")
    first = {f"agent-{number}": one.place(f"agent-{number}", None, 0.0) for number in range(8)}
    assert sorted(first.values()) == ["a"] * 4 + ["b"] * 4
    assert {name: one.place(name, None, 1.0) for name in first} == first


def test_a_sub_agent_goes_where_its_parent_is():
    one = board("a", "b", "c")
    homes = {name: one.place(name, None, 0.0) for name in ("x", "y", "z")}
    assert {name: one.place(f"{name}-child", name, 0.0) for name in homes} == homes


def test_agents_of_an_engine_that_is_down_go_elsewhere_and_come_back_when_it_does():
    one = board("a", "b")
    names = [f"agent-{number}" for number in range(6)]
    for name in names:
        one.place(name, None, 0.0)
    one.report(says("a", up=False), 1.0)
    assert {one.place(name, None, 1.0) for name in names} == {"b"}
    one.report(says("a"), 2.0)
    assert one.place("new", None, 2.0) == "a"


def test_who_has_ended_is_forgotten_but_not_who_is_on_its_way():
    one = board("a")
    one.place("gone", None, 0.0)
    one.place("coming", None, LATER)
    one.report(says("a"), LATER)
    assert one.fleet.at("gone") is None
    assert one.fleet.at("coming") == "a"


def test_a_new_life_of_the_directory_learns_from_the_shards_who_is_where():
    one = board("a", "b")
    one.report(says("b", agent("x"), agent("y"), agent("child", parent="x")), 0.0)
    assert [one.place(name, None, 0.0) for name in ("x", "y", "child")] == ["b"] * 3
    assert one.place("new", None, 0.0) == "a"


def test_an_agent_that_did_not_go_where_it_was_sent_is_where_it_is():
    one = board("a", "b")
    home = one.place("x", None, 0.0)
    other = {"a": "b", "b": "a"}[home]
    one.report(says(other, agent("x")), 1.0)
    assert one.fleet.at("x") == home, "it may be on its way"
    one.report(says(other, agent("x")), LATER)
    assert one.fleet.at("x") == other


def test_who_waits_is_sent_to_an_engine_where_nobody_does():
    one = board("a", "b")
    waiting = [name for name in ("w", "x", "y", "z") if one.place(name, None, 0.0) == "a"]
    reports = [
        says("a", *(agent(name, steps=0, waiting=True) for name in waiting), waiting=len(waiting), window=1),
        says("b", window=8),
    ]
    for report in reports:
        one.report(report, LATER)
    moves = one.steal(reports, LATER)
    assert set(moves.values()) == {"b"}
    assert set(moves) <= set(waiting)
    assert [one.place(name, None, LATER) for name in moves] == ["b"] * len(moves)


def test_agents_of_an_engine_that_left_are_placed_anew():
    one = board("a", "b")
    names = [f"agent-{number}" for number in range(6)]
    for name in names:
        one.place(name, None, 0.0)
    one.leave("a")
    assert {one.place(name, None, 1.0) for name in names} == {"b"}
    one.report(says("b"), LATER)
    assert all(one.fleet.at(name) is None for name in names)


def test_nobody_is_remembered_of_an_engine_that_left():
    one = board("a")
    one.place("x", None, 0.0)
    one.leave("a")
    one.join("a")
    one.report(says("a"), LATER)
    assert one.fleet.at("x") is None


def test_without_engines_there_is_no_place():
    with pytest.raises(LookupError):
        board().place("x", None, 0.0)
