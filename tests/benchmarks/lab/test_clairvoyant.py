"""The clairvoyant scheduler: seats what fits until the end, and is the best of its portfolio."""

import pytest

from benchmarks.lab.arms import Arm, parse_arms
from benchmarks.lab.arms.clairvoyant import MEMBERS, search
from benchmarks.lab.arms.clairvoyant.lives import Life
from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.bounds import lower_bound_s
from benchmarks.lab.engines import Engine
from benchmarks.lab.simulate import simulate
from concur_agents.emulator import CostModel, EngineConfig

COST = CostModel(
    prefill_base_s=0.005,
    prefill_token_s=1e-3,
    decode_base_s=0.02,
    decode_seq_s=1e-4,
    decode_token_s=1e-7,
)


def engine(pool: int = 16_000) -> Engine:
    return Engine(name="test", config=EngineConfig(max_total_tokens=pool, context_length=16_000), cost=COST)


def plan(name: str, steps: int, *, tool_s: float = 0.3) -> Plan:
    return Plan(name, [Step(400 + k * 200, 50, tool_s) for k in range(steps)], prefix_tokens=100)


BATCH = Batch.of([plan(f"a{n}", 4 + n % 7) for n in range(24)])


def arm(name: str):
    return parse_arms(name)[0]


def life(*, leaves: bool = False) -> Life:
    return Life(plan("a", 3, tool_s=10.0), 0, lambda tool_s, held: leaves)


def test_a_life_knows_what_it_is_going_to_hold() -> None:
    # Two-second generations of 50 tokens, ten-second tools: it ends at 2, 14 and 26 s.
    assert life().future(0.0, 0.04, [0, 1, 3, 13, 25, 27]) == [350, 350, 550, 550, 750, 0]
    assert life().remaining_s(0.04) == pytest.approx(26)


def test_a_life_that_gives_its_seat_back_holds_nothing_in_its_tools() -> None:
    assert life(leaves=True).future(0.0, 0.04, [1, 3, 13, 20, 25]) == [350, 0, 550, 0, 750]


def test_it_hardly_recomputes_where_uncontrolled_thrashes() -> None:
    wild, seer = (simulate(BATCH, engine(), arm(name)) for name in ("uncontrolled", "clairvoyant:longest"))
    assert seer.recomputed_tokens < wild.recomputed_tokens / 10
    assert seer.makespan_s < wild.makespan_s / 1.5


def test_where_all_fits_nobody_waits() -> None:
    big = engine(160_000)
    assert simulate(BATCH, big, arm("clairvoyant:longest")).makespan_s == pytest.approx(
        simulate(BATCH, big, arm("uncontrolled")).makespan_s, rel=0.01
    )


def test_the_arm_is_the_best_of_its_members_and_of_fixed_caps() -> None:
    found = search(BATCH, engine())
    best = found.results[found.member].makespan_s
    assert set(found.results) == set(MEMBERS)
    assert best == min(result.makespan_s for result in found.results.values())
    assert simulate(BATCH, engine(), arm("clairvoyant")).makespan_s == best
    assert best <= 1.02 * min(simulate(BATCH, engine(), arm(f"fixed:{cap}")).makespan_s for cap in (4, 8, 12, 16))
    assert best >= lower_bound_s(BATCH, engine())


@pytest.mark.parametrize("member", MEMBERS)
def test_every_member_gets_everybody_through_and_is_the_same_twice(member: str) -> None:
    waves = Batch(([plan(f"a{n}", 3) for n in range(6)], [plan(f"b{n}", 5) for n in range(6)]), update_s=2.0)
    results = [simulate(waves, engine(4_000), arm(f"clairvoyant:{member}")) for _ in range(2)]
    assert results[0] == results[1]
    assert results[0].lost == 0


def test_one_that_is_alone_too_big_is_seated_all_the_same() -> None:
    big = Batch.of([plan("a", 3), Plan("b", [Step(15_000, 20, 0.0)])])
    assert simulate(big, engine(), arm("clairvoyant:longest")).lost == 0


def test_without_an_engine_to_simulate_it_is_its_first_member() -> None:
    unasked = Arm("clairvoyant", arm("clairvoyant").gate)
    assert simulate(BATCH, engine(), unasked) == simulate(BATCH, engine(), arm("clairvoyant:longest"))


def test_an_unknown_member_is_named() -> None:
    with pytest.raises(ValueError, match="clairvoyant:nobody"):
        parse_arms("clairvoyant:nobody")
