"""What a seed means for a shared controller, and that every plan can be survived."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.chaos.plan import LONG_STALL, METRICS, STEP_FAULTS
from benchmarks.chaos.shared.plan import FAULTS, FAULTS_WITHIN_S, STOPS_S, draw_plan, family_of, worker_of

PLANS = [draw_plan(seed) for seed in range(300)]
CHARS_PER_TOKEN = 4


def test_a_seed_is_the_same_plan_in_any_process() -> None:
    program = "from benchmarks.chaos.shared.plan import draw_plan; print([draw_plan(seed) for seed in range(5)])"
    drawn = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert drawn.stdout.strip() == repr(PLANS[:5])


def test_seeds_differ() -> None:
    assert len({repr(plan) for plan in PLANS}) == len(PLANS)


def test_everything_that_can_happen_happens() -> None:
    faults = [fault for plan in PLANS for fault in plan.faults]
    agents = [agent for plan in PLANS for agent in plan.agents()]
    assert {fault.kind for fault in faults} == {*FAULTS, "metrics"}
    assert {fault.metrics for fault in faults} == {"", *METRICS}
    assert {fault.lasts_s for fault in faults if fault.kind == "stop worker"} == set(STOPS_S["worker"])
    assert {fault.lasts_s for fault in faults if fault.kind == "stop controller"} == set(STOPS_S["controller"])
    assert {step.fault for agent in agents for step in agent.steps} == {None, LONG_STALL, *STEP_FAULTS}
    for trait in ("streams", "inside", "own_loop"):
        assert {getattr(agent, trait) for agent in agents} == {False, True}
    assert any(agent.subs for agent in agents)
    assert any(agent.agent_id == "twin" for agent in agents)
    assert {plan.gentle for plan in PLANS} == {False, True}


def test_somebody_survives_every_run() -> None:
    for plan in PLANS:
        killed = [fault.who for fault in plan.faults if fault.kind == "kill worker"]
        assert len(killed) == len(set(killed)) < len(plan.workers)


def test_faults_come_in_order_and_within_their_time() -> None:
    for plan in PLANS:
        times = [fault.at_s for fault in plan.faults]
        assert times == sorted(times)
        assert all(0 <= at_s <= FAULTS_WITHIN_S for at_s in times)


def test_faults_of_one_worker_say_which() -> None:
    for plan in PLANS:
        for fault in plan.faults:
            assert (fault.who is not None) == fault.kind.endswith(" worker")
            assert fault.who is None or fault.who < len(plan.workers)


def test_the_monotonic_clock_never_goes_back() -> None:
    jumps = [fault for plan in PLANS for fault in plan.faults if fault.by_s]
    assert {fault.by_s > 0 for fault in jumps if fault.kind.startswith("jump-clock")} == {True}
    assert {fault.by_s > 0 for fault in jumps if fault.kind.startswith("set-clock")} == {False, True}


def test_all_agents_of_the_largest_window_fit_into_the_pool() -> None:
    for plan in PLANS:
        for agent in plan.agents():
            tokens = sum(step.said / CHARS_PER_TOKEN + (step.output or 128) + 10 for step in agent.steps)
            assert tokens < plan.pool / 1.5


def test_an_agents_name_says_its_worker_and_its_family() -> None:
    for plan in PLANS:
        for number, worker in enumerate(plan.workers):
            for agent in worker.agents:
                names = [agent.name, *(sub.name for _, sub in agent.subs)]
                assert {worker_of(name) for name in names} == {number}
                assert {family_of(name) for name in names} == {agent.name}


def test_steps_of_agents_and_sub_agents_are_found() -> None:
    for plan in PLANS:
        for agent in plan.agents():
            assert [plan.step(agent.name, number) for number in range(len(agent.steps))] == list(agent.steps)
            assert plan.step(agent.name, len(agent.steps)) is None
    assert PLANS[0].step("nobody", 0) is None
