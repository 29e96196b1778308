"""What a seed means for the gateway, and that every plan can be survived."""

from __future__ import annotations

import hashlib
import subprocess
import sys

from benchmarks.chaos.gateway.plan import ENDS, FAULTS_WITHIN_S, PROCESS_FAULTS, draw_plan
from benchmarks.chaos.plan import METRICS, STEP_FAULTS

PLANS = [draw_plan(seed) for seed in range(300)]
CHARS_PER_TOKEN = 4


def test_a_seed_is_the_same_plan_in_any_process() -> None:
    program = "from benchmarks.chaos.gateway.plan import draw_plan; print([draw_plan(seed) for seed in range(5)])"
    drawn = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert drawn.stdout.strip() == repr(PLANS[:5])


def test_seeds_differ() -> None:
    assert len({repr(plan) for plan in PLANS}) == len(PLANS)


def test_everything_that_can_happen_happens() -> None:
    clients = [client for plan in PLANS for client in plan.clients]
    agents = [agent for client in clients for agent in client.agents]
    assert {fault.kind for plan in PLANS for fault in plan.faults} == {*PROCESS_FAULTS, "metrics"}
    assert {fault.metrics for plan in PLANS for fault in plan.faults} == {"", *METRICS}
    assert {step.fault for agent in agents for step in agent.steps} == {None, *STEP_FAULTS}
    assert {agent.ends for agent in agents} == set(ENDS)
    assert {agent.streams for agent in agents} == {client.announces for client in clients} == {False, True}


def test_every_run_has_agents_with_and_without_names() -> None:
    assert all({client.named for client in plan.clients} == {False, True} for plan in PLANS)


def test_somebody_survives_every_run() -> None:
    for plan in PLANS:
        kills = [fault.who for fault in plan.faults if fault.kind == "kill client"]
        assert len(kills) == len(set(kills)) < len(plan.clients)
        assert plan.killed == set(kills)


def test_faults_come_in_order_and_within_their_time() -> None:
    for plan in PLANS:
        times = [fault.at_s for fault in plan.faults]
        assert times == sorted(times)
        assert all(0 <= at_s <= FAULTS_WITHIN_S for at_s in times)


def test_every_agent_fits_into_the_pool() -> None:
    for plan in PLANS:
        for client in plan.clients:
            for agent in client.agents:
                tokens = sum(step.said / CHARS_PER_TOKEN + (step.output or 128) + 10 for step in agent.steps)
                assert tokens < plan.pool / 1.5


def test_a_step_is_found_by_its_agents_name() -> None:
    plan = PLANS[0]
    agent = plan.clients[1].agents[0]
    assert plan.step(agent.name, 2) == agent.steps[2]
    assert plan.step(agent.name, len(agent.steps)) is None
    assert plan.step("nobody", 0) is None


def test_a_seed_means_what_it_has_always_meant() -> None:
    """Runs that failed long ago can be run again."""
    drawn = hashlib.sha256(repr([(p.law, p.pool, p.steps()) for p in PLANS]).encode()).hexdigest()
    assert drawn == "cd73d4c569880d4cea0b4e898b12078b8319945268bfba6ffa6d9f2149724f4b"
