"""The desk: who may do what with whose agents, what is said twice or late, and what becomes of those who are gone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from concur_agents import Controller
from concur_agents.remote.desk import Desk

Make = Callable[..., Any]


def join(desk: Any, *workers: str) -> None:
    for worker in workers:
        assert "error" not in desk.say("register", worker=worker)


def test_an_agent_lives_without_any_worker(make_desk: Make) -> None:
    desk = make_desk()
    assert desk.say("admit", agent="a") == {"granted": True, "state": "generating"}
    usage = {"prompt": 100, "cached": 10, "output": 5}
    assert desk.say("pause", agent="a", usage=usage) == {"changed": True, "state": "in_tool"}
    assert desk.say("resume", agent="a") == {"granted": True, "state": "generating"}
    assert desk.say("park", agent="a") == {"changed": True, "state": "parked"}
    assert desk.say("agent", agent="a")["context_tokens"] == 105
    assert desk.say("finish", agent="a", outcome="failed") == {"changed": True}
    assert desk.say("finish", agent="a") == {}
    stats = desk.say("stats")
    assert (stats["finished"], stats["prompt_tokens"], stats["window"]) == ({"failed": 1}, 100, 1.0)


def test_a_usage_in_an_engines_own_form_will_do(make_desk: Make) -> None:
    desk = make_desk()
    desk.say("admit", agent="a")
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
    desk.say("observe", agent="a", usage=usage)
    desk.say("pause", agent="a")
    stats = desk.say("stats")
    assert (stats["prompt_tokens"], stats["cached_tokens"], stats["output_tokens"]) == (7, 3, 2)


def test_who_waits_is_granted_when_it_asks_again(make_desk: Make) -> None:
    desk = make_desk()
    desk.say("admit", agent="a")
    assert desk.say("admit", agent="b") == {"state": "waiting"}
    assert desk.say("admit", agent="b", key="k") == {"state": "waiting"}
    desk.say("finish", agent="a")
    assert desk.say("admit", agent="b", key="k") == {"granted": True, "state": "generating"}
    assert desk.seated() == 1


def test_what_is_asked_in_the_wrong_order_is_refused(make_desk: Make) -> None:
    desk = make_desk(2)
    assert desk.kind("resume", agent="a") == "unknown_agent"
    assert desk.kind("pause", agent="a") == "unknown_agent"
    desk.say("admit", agent="a")
    desk.say("pause", agent="a")
    assert desk.kind("admit", agent="a") == "lifecycle"
    assert desk.say("withdraw", agent="nobody") == {}


def test_an_id_belongs_to_the_worker_that_runs_it(make_desk: Make) -> None:
    desk = make_desk(3)
    join(desk, "w1", "w2")
    desk.say("admit", agent="a", worker="w1")
    for operation in ("admit", "resume", "pause", "park", "withdraw", "finish"):
        assert desk.kind(operation, agent="a", worker="w2") == "taken"
    for operation in ("admit", "resume", "pause", "park", "withdraw"):
        assert desk.kind(operation, agent="a") == "taken"
    assert desk.state("a") == "generating"
    # Anybody may say that an agent has ended: a person with curl, say.
    assert desk.say("finish", agent="a") == {"changed": True}
    assert desk.kind("pause", agent="a", worker="w1") == "unknown_agent"
    assert desk.granted("a", worker="w2")


def test_an_agent_of_the_controllers_own_process_is_its_own(make_desk: Make) -> None:
    desk = make_desk(3)
    with desk.controller.sync.agent("mine") as agent, agent.step():
        assert desk.kind("admit", agent="mine") == "taken"
    assert desk.granted("mine")


def test_unknown_workers_have_to_register(make_desk: Make) -> None:
    desk = make_desk()
    assert desk.kind("admit", agent="a", worker="w") == "unknown_worker"
    assert desk.kind("heartbeat", worker="w") == "unknown_worker"
    join(desk, "w")
    assert desk.say("heartbeat", worker="w") == {"lease_s": 15.0}
    assert desk.granted("a", worker="w")


@pytest.mark.parametrize("operation", ["admit", "resume"])
def test_the_same_request_again_takes_no_second_seat(make_desk: Make, operation: str) -> None:
    desk = make_desk(1)
    join(desk, "w")
    desk.say("admit", agent="a", worker="w", seq=1)
    if operation == "resume":
        desk.say("pause", agent="a", worker="w", seq=2)
    request = {"agent": "a", "worker": "w", "seq": 3}
    if operation == "admit":
        request["seq"] = 1
    else:
        desk.say("resume", **request)
    assert desk.say(operation, **request)["granted"]
    desk.say("pause", agent="a", worker="w", seq=4)
    for _ in range(2):  # a copy that was under way for long: its generation has ended
        assert not desk.say(operation, **request).get("granted")
    assert desk.state("a") == "in_tool"
    desk.say("finish", agent="a", worker="w", seq=5)
    if operation == "admit":
        assert not desk.say(operation, **request).get("granted"), "a late copy brought a finished agent back"
    assert desk.state("a") is None


def test_the_same_key_again_takes_no_second_seat(make_desk: Make) -> None:
    desk = make_desk(1)
    assert desk.say("admit", agent="a", key="first")["granted"]
    assert desk.say("admit", agent="a", key="first")["granted"]
    desk.say("pause", agent="a", key="first")
    assert not desk.say("resume", agent="a", key="first").get("granted")
    assert desk.say("resume", agent="a", key="second")["granted"]
    assert desk.say("pause", agent="a", key="first") == {"state": "generating"}, "a late copy ended the next generation"
    assert desk.say("withdraw", agent="a", key="first") == {"state": "generating"}
    assert desk.say("pause", agent="a", key="second") == {"changed": True, "state": "in_tool"}


def test_what_comes_late_is_void(make_desk: Make) -> None:
    desk = make_desk(2)
    join(desk, "w")
    desk.say("admit", agent="a", worker="w", seq=1)
    pause = {"agent": "a", "worker": "w", "seq": 2}
    assert desk.say("pause", **pause) == {"changed": True, "state": "in_tool"}
    assert desk.say("pause", **pause) == {"changed": True, "state": "in_tool"}, "the same answer"
    desk.say("resume", agent="a", worker="w", seq=3)
    assert desk.say("pause", **pause) == {"state": "generating"}
    assert desk.say("finish", agent="a", worker="w", seq=2) == {"state": "generating"}


def test_a_withdrawn_request_leaves_no_trace_or_keeps_its_age(make_desk: Make) -> None:
    desk = make_desk()
    join(desk, "w")
    desk.say("admit", agent="holder", worker="w")
    desk.say("admit", agent="old", worker="w", seq=1)
    desk.say("admit", agent="young", worker="w", seq=2)
    desk.say("withdraw", agent="old", worker="w", seq=3, keep=True)
    assert desk.say("admit", agent="old", worker="w", seq=1) == {"state": "parked"}, "a late copy asked again"
    desk.say("admit", agent="old", worker="w", seq=4)
    desk.say("finish", agent="holder", worker="w")
    assert (desk.state("old"), desk.state("young")) == ("generating", "waiting")
    desk.say("withdraw", agent="young", worker="w", seq=5)
    assert desk.state("young") is None
    assert desk.say("stats")["finished"] == {"completed": 1}


def test_a_withdrawal_that_crosses_the_grant_gives_the_seat_back(make_desk: Make) -> None:
    desk = make_desk()
    join(desk, "w")
    desk.say("admit", agent="holder", worker="w")
    desk.say("admit", agent="a", worker="w", seq=1)
    desk.say("admit", agent="b", worker="w", seq=2)
    desk.say("finish", agent="holder", worker="w")
    desk.say("withdraw", agent="a", worker="w", seq=3)  # granted, and nobody came for it
    assert desk.granted("b", worker="w", seq=2)
    desk.say("withdraw", agent="b", worker="w", seq=4)  # the answer was lost on its way
    assert desk.state("b") in ("in_tool", None)
    desk.say("finish", agent="b", worker="w", seq=5)
    assert desk.seated() == 0


def test_suspended_agents_go_on_wherever(make_desk: Make) -> None:
    desk = make_desk()
    join(desk, "w1", "w2")
    desk.say("admit", agent="a", worker="w1", seq=1)
    desk.say("park", agent="a", worker="w1", seq=2, suspend=True)
    assert desk.say("resume", agent="a", worker="w2", seq=1)["granted"]
    assert desk.kind("resume", agent="a", worker="w1", seq=3) == "taken"
    desk.say("park", agent="a", worker="w2", seq=2, suspend=True)
    desk.say("leave", worker="w2")
    assert desk.state("a") == "parked", "whoever suspended it has gone; it waits for somebody to go on with it"
    assert desk.say("resume", agent="a", worker="w1", seq=4)["granted"]


def test_a_suspended_agent_that_nobody_goes_on_with_ends(make_desk: Make) -> None:
    desk = make_desk(unnamed_s=100)
    join(desk, "w")
    desk.say("admit", agent="a", worker="w")
    desk.say("park", agent="a", worker="w", suspend=True)
    desk.say("leave", worker="w")
    desk.pass_time(99)
    assert desk.state("a") == "parked"
    desk.pass_time(2)
    assert desk.state("a") is None


def test_when_a_lease_lapses_who_is_between_steps_ends_and_who_generates_keeps_its_seat(make_desk: Make) -> None:
    desk = make_desk(2, lease_s=15, in_flight_s=600)
    join(desk, "w")
    for agent, then in (("parked", "park"), ("in_tool", "pause"), ("generating", ""), ("waiting", "")):
        desk.say("admit", agent=agent, worker="w")
        if then:
            desk.say(then, agent=agent, worker="w")
    assert [desk.state(agent) for agent in ("parked", "in_tool", "generating", "waiting")] == [
        *("parked", "in_tool", "generating", "waiting")
    ]
    desk.pass_time(14)
    assert len(desk.controller.agents()) == 4
    desk.pass_time(2)
    assert [view.agent_id for view in desk.controller.agents()] == ["generating"]
    assert desk.kind("heartbeat", worker="w") == "unknown_worker"
    desk.pass_time(598)
    assert desk.seated() == 1
    desk.pass_time(2)
    assert desk.seated() == 0
    assert desk.say("stats")["finished"] == {"cancelled": 3}, "one had never begun"


def test_a_heartbeat_or_anything_else_renews_the_lease(make_desk: Make) -> None:
    desk = make_desk(2, lease_s=10)
    join(desk, "w1", "w2")
    desk.say("admit", agent="a", worker="w1")
    desk.say("pause", agent="a", worker="w1")
    for _ in range(5):
        desk.pass_time(8)
        desk.say("heartbeat", worker="w1")
        desk.say("admit", agent="b", worker="w2")
    assert (desk.state("a"), desk.state("b")) == ("in_tool", "generating")


@pytest.mark.parametrize("lease_s", [1.5, 10])
@pytest.mark.parametrize("still_s", [2.5, 4, 11, 3600])
def test_a_desk_that_stood_still_takes_no_worker_to_be_gone(make_desk: Make, lease_s: float, still_s: float) -> None:
    desk = make_desk(2, lease_s=lease_s)
    join(desk, "w")
    desk.say("admit", agent="a", worker="w")
    desk.say("pause", agent="a", worker="w")
    desk.clock.advance(still_s)  # stopped, or the whole machine asleep
    desk.desk.sweep()
    assert desk.state("a") == "in_tool"
    desk.pass_time(lease_s + 1)
    assert desk.state("a") is None


@pytest.mark.parametrize("still_s", [2.5, 11, 3600])
def test_a_desk_that_stood_still_keeps_suspended_agents_for_as_long_as_ever(make_desk: Make, still_s: float) -> None:
    desk = make_desk(2, lease_s=10, unnamed_s=2)
    join(desk, "w")
    desk.say("admit", agent="a", worker="w")
    desk.say("park", agent="a", worker="w", suspend=True)
    desk.say("leave", worker="w")
    desk.clock.advance(still_s)  # while nobody could have gone on with it
    desk.desk.sweep()
    assert desk.state("a") == "parked"
    desk.pass_time(3)
    assert desk.state("a") is None


def test_a_granted_seat_that_a_dead_worker_never_came_for_goes_to_others(make_desk: Make) -> None:
    desk = make_desk(lease_s=10)
    join(desk, "dead", "w")
    desk.say("admit", agent="holder", worker="w")
    desk.say("admit", agent="a", worker="dead")
    desk.say("admit", agent="b", worker="w")
    desk.say("finish", agent="holder", worker="w")
    assert desk.state("a") == "generating"
    for _ in range(3):
        desk.pass_time(5)
        desk.say("heartbeat", worker="w")
    assert (desk.state("a"), desk.state("b")) == (None, "generating")


def test_an_agent_without_a_worker_has_a_lease_of_its_own(make_desk: Make) -> None:
    desk = make_desk(3, unnamed_s=100, in_flight_s=50)
    desk.say("admit", agent="a")
    desk.say("admit", agent="b")
    desk.say("pause", agent="b")
    desk.pass_time(90)
    desk.say("resume", agent="b")
    desk.pass_time(20)
    assert (desk.state("a"), desk.state("b")) == ("generating", "generating")
    desk.pass_time(50)
    assert (desk.state("a"), desk.state("b")) == (None, "generating")


def report(agent: str, state: str, **more: Any) -> dict[str, Any]:
    return {"agent": agent, "state": state, "steps": 0 if state == "waiting" else 3, "age_s": 10.0} | more


def test_a_worker_that_was_stopped_comes_back_and_loses_nobody(make_desk: Make) -> None:
    desk = make_desk(2, lease_s=10)
    join(desk, "w", "other")
    desk.say("admit", agent="g", worker="w", seq=1)
    desk.say("admit", agent="t", worker="w", seq=2)
    desk.say("pause", agent="t", worker="w", seq=3)
    for _ in range(3):
        desk.pass_time(5)
        desk.say("heartbeat", worker="other")
    assert (desk.state("g"), desk.state("t")) == ("generating", None)
    agents = [report("g", "generating"), report("t", "in_tool")]
    assert desk.say("register", worker="w", seq=4, agents=agents) == {"lease_s": 10.0}
    assert (desk.state("g"), desk.state("t")) == ("generating", "in_tool")
    assert desk.say("pause", agent="g", worker="w", seq=5) == {"changed": True, "state": "in_tool"}
    assert desk.say("stats")["finished"] == {"cancelled": 1}


def test_agents_taken_over_meanwhile_are_the_others(make_desk: Make) -> None:
    desk = make_desk(3, lease_s=10)
    join(desk, "w", "other")
    desk.say("admit", agent="a", worker="w", seq=1)
    for _ in range(3):
        desk.pass_time(5)
        desk.say("heartbeat", worker="other")
    assert desk.say("admit", agent="a", worker="other", seq=1)["granted"], "its worker seems gone"
    answer = desk.say("register", worker="w", seq=2, agents=[report("a", "generating"), report("b", "generating")])
    assert answer["taken"] == ["a"]
    assert desk.kind("pause", agent="a", worker="w", seq=3) == "taken"
    assert desk.say("pause", agent="a", worker="other", seq=2)["changed"]


def test_a_new_controller_takes_everybody_in_by_age_and_who_generates_with_a_seat(make_desk: Make) -> None:
    desk = make_desk(2)
    join(desk, "w0")
    desk.say("admit", agent="new", worker="w0", seq=1)
    desk.say("pause", agent="new", worker="w0", seq=2)
    desk.say("admit", agent="newer", worker="w0", seq=3)
    agents = [
        report("young", "generating", age_s=50),
        report("waits", "waiting", age_s=70),
        report("tool", "in_tool", age_s=60, context_tokens=1000),
    ]
    desk.say("register", worker="w1", seq=9, agents=agents)
    desk.say("register", worker="w2", seq=5, agents=[report("old", "generating", age_s=100)])
    states = {view.agent_id: str(view.state) for view in desk.controller.agents()}
    assert states == {
        "new": "parked",  # the youngest in a tool had to make room
        "newer": "generating",
        "young": "generating",
        "old": "generating",
        "tool": "parked",
        "waits": "parked",
    }
    assert desk.say("agent", agent="tool")["context_tokens"] == 1000
    order = [("new", "w0", 11), ("waits", "w1", 11), ("tool", "w1", 12)]
    for agent, worker, seq in order:
        assert not desk.granted(agent, worker=worker, seq=seq)
    served = []
    for agent, worker in (("young", "w1"), ("newer", "w0"), ("old", "w2"), ("waits", "w1"), ("tool", "w1")):
        desk.say("finish", agent=agent, worker=worker)
        served += [each for each, *_ in order if desk.state(each) == "generating" and each not in served]
    assert served == ["waits", "tool", "new"], "the oldest first, however late they came to this controller"


def test_sub_agents_come_back_into_their_family_in_any_order(make_desk: Make) -> None:
    desk = make_desk(1)
    child, parent = report("child", "generating", parent="parent", age_s=5), report("parent", "in_tool", age_s=9)
    desk.say("register", worker="w", seq=1, agents=[child, parent])
    assert desk.seated() == 1
    assert desk.say("agent", agent="child")["parent"] == "parent"
    assert desk.say("pause", agent="child", worker="w", seq=2) == {"changed": True, "state": "in_tool"}
    assert desk.say("resume", agent="parent", worker="w", seq=3)["granted"]


def test_registering_ends_who_is_not_there_any_more_as_it_ended(make_desk: Make) -> None:
    desk = make_desk(3)
    join(desk, "w")
    for seq, agent in enumerate("abc", 1):
        desk.say("admit", agent=agent, worker="w", seq=seq)
    desk.say("register", worker="w", seq=4, agents=[report("c", "in_tool")], ended=[["a", "completed"]])
    assert desk.say("stats")["finished"] == {"completed": 1, "cancelled": 1}
    assert desk.state("c") == "in_tool", "it says where it is: it was paused, and that was lost"


def test_a_late_registration_is_void(make_desk: Make) -> None:
    desk = make_desk(3)
    desk.say("register", worker="w", seq=1)
    desk.say("register", worker="w", seq=5, agents=[report("a", "in_tool")])
    desk.say("register", worker="w", seq=1)
    assert desk.state("a") == "in_tool"
    assert not desk.say("admit", agent="ghost", worker="w", seq=3).get("granted"), "it was said before that"
    assert desk.state("ghost") is None


def test_a_finished_parent_takes_its_sub_agents_along(make_desk: Make) -> None:
    desk = make_desk(1)
    join(desk, "w")
    desk.say("admit", agent="parent", worker="w", seq=1)
    desk.say("pause", agent="parent", worker="w", seq=2)
    assert desk.say("admit", agent="child", worker="w", parent="parent", seq=3)["granted"]
    desk.say("finish", agent="parent", worker="w", seq=4)
    assert desk.seated() == 0
    assert desk.kind("pause", agent="child", worker="w", seq=5) == "unknown_agent"
    desk.desk.sweep()
    assert desk.desk.book.held == {}


def test_a_parent_whose_worker_is_gone_does_not_take_others_along(make_desk: Make) -> None:
    desk = make_desk(1, lease_s=10, in_flight_s=20)
    join(desk, "w1", "w2")
    desk.say("admit", agent="parent", worker="w1")
    desk.say("pause", agent="parent", worker="w1")
    assert desk.say("admit", agent="child", worker="w2", parent="parent")["granted"]
    for _ in range(3):
        desk.pass_time(5)
        desk.say("heartbeat", worker="w2")
    assert desk.state("child") == "generating"
    desk.say("finish", agent="child", worker="w2")
    desk.pass_time(21)
    assert desk.state("parent") is None


def test_leaving_ends_all_at_once(make_desk: Make) -> None:
    desk = make_desk(3)
    join(desk, "w")
    desk.say("admit", agent="a", worker="w")
    desk.say("admit", agent="b", worker="w")
    desk.say("leave", worker="w")
    desk.say("leave", worker="w")
    assert desk.say("stats")["finished"] == {"cancelled": 2}
    assert desk.desk.book.workers == {}


def test_everything_that_grows_is_bounded(make_desk: Make) -> None:
    desk = make_desk(9, max_workers=2, max_agents=3)
    join(desk, "w1", "w2")
    assert desk.kind("register", worker="w3") == "full"
    for agent in "abc":
        desk.say("admit", agent=agent, worker="w1")
    assert desk.kind("admit", agent="d", worker="w1") == "full"
    assert desk.kind("admit", agent="d") == "full"
    assert desk.kind("register", worker="w2", seq=1, agents=[report("e", "waiting")]) == "full"
    desk.say("finish", agent="a", worker="w1")
    assert desk.granted("d", worker="w1")


def test_a_closed_controller_says_so(make_desk: Make) -> None:
    desk = make_desk()
    desk.controller.close()
    assert desk.kind("admit", agent="a") == "closed"
    assert desk.kind("register", worker="w", agents=[report("a", "in_tool")]) == "closed"


def test_agents_are_listed_by_the_page_with_their_worker(make_desk: Make) -> None:
    desk = make_desk(9)
    join(desk, "w")
    for agent in "abc":
        desk.say("admit", agent=agent, worker="w")
    desk.say("admit", agent="d")
    page = desk.say("agents", limit=2, offset=2)
    assert page["total"] == 4
    assert [(each["agent_id"], each["worker"]) for each in page["agents"]] == [("c", "w"), ("d", None)]
    assert desk.kind("agent", agent="zz") == "unknown_agent"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lease_s", 0),
        ("lease_s", math.inf),
        ("in_flight_s", -1),
        ("unnamed_s", math.nan),
        ("max_workers", 0),
        ("max_agents", 0),
        ("max_waiting", 0),
    ],
)
def test_a_bad_parameter_is_named_with_its_value(
    make_controller: Callable[..., Controller], name: str, value: float
) -> None:
    with pytest.raises(ValueError, match=f"{name} must be .* got {value!r}"):
        Desk(make_controller(), **{name: value})


async def test_whoever_waits_is_woken_and_a_bound_holds(make_controller: Callable[..., Controller], until: Any) -> None:
    controller = make_controller(1)
    desk = Desk(controller, max_waiting=1)
    await desk.handle("admit", {"agent": "holder"})
    waiting = asyncio.create_task(desk.handle("admit", {"agent": "a", "wait_s": 60}))
    await until(lambda: desk._waiting == 1)
    refused = await desk.handle("admit", {"agent": "b", "wait_s": 60})
    assert refused["error"]["kind"] == "full"
    await desk.handle("finish", {"agent": "holder"})
    assert (await waiting)["granted"]
    waiting = asyncio.create_task(desk.handle("resume", {"agent": "b", "wait_s": 60}))
    await until(lambda: desk._waiting == 1)
    await desk.handle("finish", {"agent": "b"})
    assert (await waiting)["error"]["kind"] == "finished"
    await desk.handle("register", {"worker": "w"})
    waiting = asyncio.create_task(desk.handle("admit", {"agent": "of w", "worker": "w", "wait_s": 60}))
    await until(lambda: desk._waiting == 1)
    desk.book._drop(desk.book.workers["w"], 0.0)
    assert (await waiting)["error"]["kind"] == "unknown_worker", "its worker may have been stopped: it did not finish"
    waiting = asyncio.create_task(desk.handle("admit", {"agent": "c", "wait_s": 60}))
    await until(lambda: desk._waiting == 1)
    controller.close()
    assert (await waiting)["error"]["kind"] == "closed"
