"""The lower bound: below every schedule, and close to those that cannot be bettered."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.lab.arms import parse_arms
from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.bounds import alone_s, lower_bound_s
from benchmarks.lab.bounds.costs import sum_least
from benchmarks.lab.engines import Engine, get_engine
from benchmarks.lab.simulate import simulate
from concur_agents.emulator import CostModel, EngineConfig
from concur_agents.emulator.vllm import VllmConfig, VllmScheduler

COST = CostModel(
    prefill_base_s=0.005,
    prefill_token_s=6e-5,
    prefill_pair_s=3e-9,
    prefill_floor_s=0.014,
    decode_base_s=0.015,
    decode_seq_s=5e-5,
    decode_token_s=6.5e-8,
)
ARMS = (
    "uncontrolled",
    "fixed:1",
    "fixed:2",
    "fixed:5",
    "concur",
    "budget",
    "requests:2",
    "clairvoyant:longest",
    "clairvoyant:early-swap",
    "clairvoyant:over",
)


def engine(pool: int = 200_000, **limits: object) -> Engine:
    return Engine(name="test", config=EngineConfig(max_total_tokens=pool, context_length=131_072, **limits), cost=COST)


def plan(name: str, steps: int = 5, *, added: int = 400, output: int = 60, tool_s: float = 0.5, **more: object) -> Plan:
    return Plan(name, [Step(1000 + k * added, output, tool_s) for k in range(steps)], **more)


@st.composite
def plans(draw: st.DrawFn, name: str) -> Plan:
    shared = draw(st.sampled_from([0, 0, 40, 150]))
    prompt = draw(st.integers(1, 200)) + draw(st.sampled_from([0, shared]))
    steps = []
    for _ in range(draw(st.integers(1, 4))):
        output = draw(st.integers(1, 90))
        steps.append(Step(prompt, output, draw(st.sampled_from([0.0, 0.1, 2.0]))))
        prompt = max(1, prompt + output + draw(st.integers(-60, 120)))
    return Plan(
        name,
        steps,
        arrival_s=draw(st.sampled_from([0.0, 0.0, 1.5])),
        prefix=draw(st.integers(0, 1)),
        prefix_tokens=shared,
    )


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    waves = draw(st.lists(st.integers(1, 7), min_size=1, max_size=2))
    names = iter(range(99))
    made = [[draw(plans(f"a{next(names)}")) for _ in range(count)] for count in waves]
    return Batch(made, update_s=draw(st.sampled_from([0.0, 3.0])), cores=draw(st.sampled_from([None, None, 1, 2])))


SECONDS = st.sampled_from([0.0, 1e-4, 1e-3, 1e-2])
COSTS = st.builds(
    CostModel,
    prefill_base_s=SECONDS,
    prefill_token_s=SECONDS,
    prefill_pair_s=st.sampled_from([0.0, 1e-6, 1e-5]),
    prefill_cached_s=st.sampled_from([0.0, 1e-5]),
    prefill_floor_s=st.sampled_from([1e-3, 0.05]),  # the virtual clock counts microseconds: a pass must take some
    decode_base_s=st.sampled_from([1e-3, 1e-2, 0.1]),
    decode_seq_s=SECONDS,
    decode_token_s=st.sampled_from([0.0, 1e-5, 1e-3]),
)
SGLANG = st.builds(
    lambda pages, page, chunk, running, cost: Engine(
        name="random",
        config=EngineConfig(
            max_total_tokens=pages * 16,
            page_size=page,
            chunked_prefill_size=chunk,
            max_running_requests=running,
            context_length=2000,
        ),
        cost=cost,
    ),
    st.sampled_from([30, 40, 60, 120, 600]),
    st.sampled_from([1, 1, 16]),
    st.sampled_from([None, 16, 64, 512]),
    st.sampled_from([2, 64]),
    COSTS,
)
VLLM = st.builds(
    lambda pages, batched, running, cost: Engine(
        name="random",
        config=VllmConfig(
            max_total_tokens=pages * 16, context_length=400, max_batched_tokens=batched, max_running_requests=running
        ),
        cost=cost,
        build=VllmScheduler,
    ),
    st.sampled_from([30, 40, 60, 600]),
    st.sampled_from([64, 512]),
    st.sampled_from([2, 64]),
    COSTS,
)


@settings(max_examples=40, deadline=None)
@given(batch=batches(), made=st.one_of(SGLANG, VLLM), arm=st.sampled_from(ARMS))
def test_no_schedule_is_faster_on_any_engine(batch: Batch, made: Engine, arm: str) -> None:
    chosen = parse_arms(arm)[0]
    result = simulate(batch, made, chosen)
    steps = sum(len(each.steps) for each in batch.plans)
    # The virtual clock counts microseconds, so a step may begin or end that much early.
    assert lower_bound_s(batch, made) <= result.makespan_s * (1 + 1e-9) + 5e-6 * steps


@pytest.mark.parametrize("arm", ["uncontrolled", "fixed:4", "budget", "clairvoyant:longest"])
@pytest.mark.parametrize("pool", [12_000, 40_000, 400_000])
def test_no_schedule_is_faster_where_memory_is_short_and_costs_are_a_card_s(arm: str, pool: int) -> None:
    rng = random.Random(pool)
    batch = Batch.of(
        [plan(f"a{n}", rng.randint(2, 9), added=rng.randint(80, 700), prefix_tokens=300) for n in range(14)]
    )
    assert lower_bound_s(batch, engine(pool)) <= simulate(batch, engine(pool), parse_arms(arm)[0]).makespan_s


def test_one_agent_alone_takes_exactly_its_bound() -> None:
    alone = plan("a", 8)
    took = simulate(Batch.of([alone]), engine(), parse_arms("uncontrolled")[0]).makespan_s
    assert lower_bound_s(Batch.of([alone]), engine()) == pytest.approx(took, rel=1e-4)
    assert alone_s(alone, engine()) == pytest.approx(took, rel=1e-4)


def test_a_big_pool_without_tools_is_within_a_tenth() -> None:
    batch = Batch.of([plan(f"a{n}", 2, output=700, tool_s=0.0) for n in range(24)])
    big = engine(2_000_000)
    assert simulate(batch, big, parse_arms("uncontrolled")[0]).makespan_s < 1.1 * lower_bound_s(batch, big)


def test_a_small_pool_raises_the_bound() -> None:
    batch = Batch.of([plan(f"a{n}", 12) for n in range(20)])
    assert lower_bound_s(batch, engine(12_000)) > 1.5 * lower_bound_s(batch, engine(2_000_000))


def test_long_tools_raise_the_bound_where_contexts_fill_the_pool() -> None:
    def bound(tool_s: float) -> float:
        many = [plan(f"a{n}", 12, added=900, tool_s=tool_s) for n in range(40)]
        return lower_bound_s(Batch.of(many), engine(15_000))

    assert bound(10.0) > 1.05 * bound(0.0)


def test_tools_that_wait_in_line_for_a_core_raise_the_bound_to_what_they_take() -> None:
    many = [plan(f"a{n}", 6, tool_s=20.0) for n in range(12)]
    free, few = Batch.of(many), Batch.of(many, cores=2)
    took = simulate(few, engine(), parse_arms("uncontrolled")[0]).makespan_s
    assert 0.97 * took < lower_bound_s(few, engine()) <= took
    assert lower_bound_s(free, engine()) < 0.3 * took
    assert lower_bound_s(Batch.of(many, cores=1000), engine()) == lower_bound_s(free, engine())


def test_waves_add_up_with_the_updates_between_them() -> None:
    one, two = ([plan(f"{wave}{n}") for n in range(3)] for wave in "ab")
    parts = lower_bound_s(Batch.of(one), engine()) + lower_bound_s(Batch.of(two), engine())
    assert lower_bound_s(Batch((one, two), update_s=30.0), engine()) == pytest.approx(parts + 30)


def test_an_agent_that_comes_last_ends_last() -> None:
    late = plan("late", arrival_s=500.0)
    batch = Batch.of([plan("a"), late])
    assert lower_bound_s(batch, engine()) == pytest.approx(500 + alone_s(late, engine()))


def test_what_the_engine_refuses_is_not_counted() -> None:
    small = Engine(name="small", config=EngineConfig(max_total_tokens=16_000, context_length=4096), cost=COST)
    cut = Plan("a", [Step(1000, 50, 3.0), Step(5000, 50, 9.0), Step(5100, 50, 9.0)])
    took = simulate(Batch.of([cut]), small, parse_arms("uncontrolled")[0])
    assert took.lost == 1
    assert alone_s(cut, small) == pytest.approx(took.makespan_s, abs=1e-3)


@pytest.mark.parametrize("name", ["qwen3-32b-tp2", "vllm-qwen3-32b-tp2", "qwen3-32b-tp2-hicache"])
def test_every_kind_of_engine_has_a_bound(name: str) -> None:
    batch = Batch.of([plan(f"a{n}", 4) for n in range(3)])
    chosen = get_engine(name)
    took = simulate(batch, chosen, parse_arms("uncontrolled")[0]).makespan_s
    assert 0.8 * took < lower_bound_s(batch, chosen) <= took


@given(
    st.tuples(st.floats(0, 9), st.floats(-1, 1)),
    st.tuples(st.floats(0, 9), st.floats(-1, 1)),
    st.integers(0, 60),
    st.integers(0, 60),
)
def test_the_sum_of_the_lesser_of_two_lines_is_exact(
    one: tuple[float, float], other: tuple[float, float], first: int, count: int
) -> None:
    least = sum(min(one[0] + one[1] * c, other[0] + other[1] * c) for c in range(first, first + count))
    assert sum_least(one, other, first, count) == pytest.approx(least, abs=1e-6)


@pytest.mark.parametrize(
    "bound", [lambda made: lower_bound_s(Batch.of([plan("a")]), made), partial(alone_s, plan("a"))]
)
def test_of_costs_that_are_no_line_nothing_is_claimed(bound: Callable[[Engine], float]) -> None:
    measured = replace(engine(), cost=replace(COST, decode_batch_s=((1, 0.03), (16, 0.02))))
    with pytest.raises(ValueError, match=r"no bound is proven for test.*decode_batch_s"):
        bound(measured)
