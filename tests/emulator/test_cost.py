from dataclasses import replace
from pathlib import Path

import pytest

from concur_agents.emulator import PRESETS, CostModel
from concur_agents.emulator.presets import get_preset

MODEL = CostModel(
    prefill_base_s=1, prefill_token_s=0.1, prefill_pair_s=0.01, decode_base_s=2, decode_seq_s=0.5, decode_token_s=0.25
)


def test_prefill_is_linear_in_tokens_and_quadratic_in_context() -> None:
    assert MODEL.prefill_s([(10, 0)]) == pytest.approx(1 + 1 + 0.01 * 50)
    assert MODEL.prefill_s([(10, 100), (1, 0)]) == pytest.approx(1 + 1.1 + 0.01 * (10 * 105 + 0.5))


def test_a_short_prefill_costs_the_floor() -> None:
    model = CostModel(prefill_token_s=0.1, prefill_floor_s=5, decode_base_s=1)
    assert model.prefill_s([(1, 0)]) == 5
    assert model.prefill_s([(100, 0)]) == pytest.approx(10)


def test_a_decode_step_depends_on_batch_and_context() -> None:
    assert MODEL.decode_s(4, 100) == 2 + 4 * 0.5 + 100 * 0.25


def test_a_measured_engines_steps_are_as_they_were_measured() -> None:
    model = CostModel(
        prefill_token_s=1, decode_base_s=9, decode_seq_s=9, decode_token_s=0.5, decode_batch_s=((2, 1), (4, 5), (8, 3))
    )
    sizes = {1: 1, 2: 1, 3: 3, 4: 5, 6: 4, 8: 3, 100: 3}
    assert {size: model.decode_s(size, 10) for size in sizes} == {size: 5 + s for size, s in sizes.items()}


def test_beyond_what_was_measured_it_goes_on_alike() -> None:
    model = CostModel(prefill_token_s=1, decode_base_s=9, decode_batch_s=((2, 1), (4, 2)))
    assert model.decode_of_s(8) == pytest.approx(4)
    assert CostModel(prefill_token_s=1, decode_base_s=9, decode_batch_s=((2, 1),)).decode_of_s(8) == 1


@pytest.mark.parametrize("model", [MODEL, replace(MODEL, decode_batch_s=((1, 0.1), (16, 0.2)))])
def test_a_model_survives_its_file(tmp_path: Path, model: CostModel) -> None:
    model.save(tmp_path / "cost.json")
    assert CostModel.load(tmp_path / "cost.json") == model


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "a cost model is a JSON object, got list"),
        ('{"prefill_token": 1}', "unknown fields prefill_token; known are"),
        ('{"decode_base_s": 1}', "prefill_token_s"),
        ('{"prefill_token_s": "x", "decode_base_s": 1}', "prefill_token_s must be a number of seconds, got 'x'"),
        ('{"prefill_token_s": -1, "decode_base_s": 1}', "prefill_token_s must be finite and at least 0, got -1"),
        ('{"prefill_token_s": 1, "decode_base_s": 0}', "decode_base_s must be positive"),
        *(
            (
                f'{{"prefill_token_s": 1, "decode_base_s": 1, "decode_batch_s": {batches}}}',
                f"decode_batch_s must {must}",
            )
            for batches, must in (
                ('"ab"', "be pairs"),
                ("1", "be pairs"),
                ("[1, 2]", "be pairs"),
                ("[[1]]", "be pairs"),
                ("[[1, 0]]", "be pairs"),
                ('[[1, "2"]]', "be pairs"),
                ("[[2, 1], [1, 1]]", "have each number of sequences once, in order"),
                ("[[2, 1], [2, 1]]", "have each number of sequences once, in order"),
            )
        ),
    ],
)
def test_a_bad_file_says_what_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "cost.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        CostModel.load(tmp_path / "cost.json")


def test_presets_hold_what_their_memory_leaves() -> None:
    # (0.87 x 85.5 GB x cards - 65.6 GB of weights) / 262,144 bytes a token; MLA: 30 GB of each card / 70,272 bytes.
    pools = {name: preset.config.max_total_tokens for name, preset in PRESETS.items()}
    assert pools["qwen3-32b-h100-tp8"] == pytest.approx(2.02e6, rel=0.01)
    assert pools["qwen3-32b-h100-tp4"] == pytest.approx(885e3, rel=0.01)
    assert pools["qwen3-32b-h100-tp2"] == pytest.approx(317e3, rel=0.01)
    assert pools["deepseek-v3-h100-tp16"] == pytest.approx(462e3, rel=0.01)


def test_more_cards_are_faster() -> None:
    costs = [PRESETS[f"qwen3-32b-h100-tp{tp}"].cost for tp in (2, 4, 8)]
    for times in ([cost.prefill_s([(4096, 0)]) for cost in costs], [cost.decode_s(32, 100_000) for cost in costs]):
        assert times == sorted(times, reverse=True)


def test_an_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"preset must be one of cpu-sglang, .* got 'gpt'"):
        get_preset("gpt")
