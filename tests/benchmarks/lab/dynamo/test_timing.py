"""Both sides have the same seconds."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.lab.dynamo.timing import sglang_timing, vllm_timing, write_table
from concur_agents.emulator import PRESETS
from concur_agents.emulator.vllm.passes import mixed_s

COST = PRESETS["qwen3-32b-h100-tp2"].cost


def _prefill(table, tokens: float) -> float:
    return float(np.interp(tokens, table["prefill_isl"], table["prefill_ttft_ms"])) / 1000


def _decode(table, sequences: int, tokens: int) -> float:
    """As Dynamo looks it up: bilinear, by the tokens held and their mean, a whole number."""
    mean = tokens // sequences
    low, high = (np.interp(mean, table["decode_context_length"], row) for row in table["decode_itl"])
    share = tokens / table["decode_active_kv_tokens"][1]
    return float(low + share * (high - low)) / 1000


@pytest.fixture(params=[sglang_timing, vllm_timing])
def said(request, tmp_path):
    timing = request.param(COST)
    write_table(tmp_path / "table.npz", timing)
    return timing, np.load(tmp_path / "table.npz")


@pytest.mark.parametrize("sequences", [1, 7, 200])
@pytest.mark.parametrize("mean", [50, 3_000, 90_000])
def test_a_decode_step_lasts_as_long_in_the_table(said, sequences: int, mean: int) -> None:
    timing, table = said
    assert _decode(table, sequences, sequences * mean) == pytest.approx(
        timing.cost.decode_s(sequences, sequences * mean), rel=5e-4
    )


@pytest.mark.parametrize("tokens", [1, 40, 147, 148, 900, 60_000])
def test_a_prefill_pass_of_sglang_lasts_as_long_in_the_table(tmp_path, tokens: int) -> None:
    timing = sglang_timing(COST)
    write_table(tmp_path / "table.npz", timing)
    assert _prefill(np.load(tmp_path / "table.npz"), tokens) == pytest.approx(
        timing.cost.prefill_s([(tokens, 12_345)]), rel=1e-9
    )


@pytest.mark.parametrize("others", [0, 1, 30])
def test_a_pass_of_vllm_lasts_as_long_as_dynamos_two_terms(tmp_path, others: int) -> None:
    timing = vllm_timing(COST)
    write_table(tmp_path / "table.npz", timing)
    table = np.load(tmp_path / "table.npz")
    new, cached, held = 300, 20_000, others * 15_000
    theirs = _prefill(table, new) + _decode(table, others + 1, held + new + cached)
    ours = mixed_s(timing.cost, [(new, cached)], others, held)
    assert ours == pytest.approx(theirs, rel=3e-3)  # the row of the new request, 0.05 ms, is missing here
