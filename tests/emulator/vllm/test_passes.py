"""The time of a pass that prefills and decodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concur_agents.emulator import PRESETS, CostModel
from concur_agents.emulator.vllm.passes import mixed_s

COST = CostModel(prefill_base_s=0.1, prefill_token_s=0.01, prefill_floor_s=0.15, decode_base_s=1, decode_seq_s=0.2)


def test_without_decodes_it_is_a_prefill_and_without_prefills_a_decode_step() -> None:
    assert mixed_s(COST, [(50, 0)], 0, 0) == COST.prefill_s([(50, 0)])
    assert mixed_s(COST, [], 3, 100) == COST.decode_s(3, 100)


def test_the_fixed_part_is_paid_once() -> None:
    assert mixed_s(COST, [(300, 0)], 2, 0) == pytest.approx(0.1 + 3 + 0.4)
    assert mixed_s(COST, [(1, 0)], 2, 0) == pytest.approx(1 + 0.4)


@given(
    prefills=st.lists(st.tuples(st.integers(1, 8192), st.integers(0, 100_000)), min_size=1, max_size=3),
    sequences=st.integers(1, 500),
    tokens=st.integers(1, 300_000),
    preset=st.sampled_from(sorted(PRESETS)),
)
def test_it_is_never_less_than_either_and_never_more_than_both(
    prefills: list[tuple[int, int]], sequences: int, tokens: int, preset: str
) -> None:
    cost = PRESETS[preset].cost
    prefill, decode = cost.prefill_s(prefills), cost.decode_s(sequences, tokens)
    assert max(prefill, decode) * (1 - 1e-9) <= mixed_s(cost, prefills, sequences, tokens)
    assert mixed_s(cost, prefills, sequences, tokens) <= (prefill + decode) * (1 + 1e-9)
