"""Every workload: valid batches, the same by seed, the lengths it says, and room for what it must show."""

from __future__ import annotations

from itertools import pairwise

import pytest

from benchmarks.lab.engines import get_engine
from benchmarks.lab.workloads import WORKLOADS, get_workload
from benchmarks.lab.workloads import __main__ as command
from benchmarks.lab.workloads.busy_host import CORES
from benchmarks.lab.workloads.rl_waves import GROUP, UPDATE_S, WAVE
from benchmarks.lab.workloads.table import PAGE, filled

NAMES = list(WORKLOADS)
SMALLEST = get_engine("qwen3-32b-tp2").config.max_total_tokens
LONGEST_PROMPT = get_engine("qwen3-32b-tp2").config.max_prompt_tokens  # as with the lab's other engines


def at(values, share):
    return sorted(values)[round(share * (len(values) - 1))]


def three(values):
    return [at(values, share) for share in (0.1, 0.5, 0.9)]


def added(plans):
    return [b.prompt - a.prompt - a.output for plan in plans for a, b in pairwise(plan.steps)]


def wanted(wave):
    """Tokens that a wave's agents would hold at their longest, what they share not counted."""
    return sum(plan.longest - plan.prefix_tokens for plan in wave)


def test_the_workloads_of_the_design_are_there() -> None:
    assert set(NAMES) == {
        *("swe", "coding-sessions", "react-10", "mixed", "no-shared-prefix", "slow-tools"),
        *("busy-host", "rl-waves", "judge", "distill", "arrivals", "fits"),
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_has_as_many_agents_as_were_asked_for_and_engines_take_them(name) -> None:
    for seed in range(3):
        batch = get_workload(name).batch(seed, 17)
        assert len(batch.plans) == 17
        assert max(plan.longest for plan in batch.plans) < LONGEST_PROMPT
        assert all(plan.prefix_tokens <= plan.steps[0].prompt for plan in batch.plans)
        prompts = [[step.prompt for step in plan.steps] for plan in batch.plans]
        assert all(steps == sorted(steps) for steps in prompts)


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_and_nothing_else_makes_a_batch(name) -> None:
    workload = get_workload(name)
    assert workload.batch(3, 20) == workload.batch(3, 20)
    assert workload.batch(3, 20) != workload.batch(4, 20)


@pytest.mark.parametrize("name", NAMES)
def test_with_more_agents_those_there_were_stay_as_they_are(name) -> None:
    workload = get_workload(name)
    assert workload.batch(1, 50).plans[:20] == workload.batch(1, 20).plans


@pytest.mark.parametrize("name", NAMES)
def test_every_batch_overcommits_the_smallest_pool_but_the_one_that_fits(name) -> None:
    for seed in range(2):
        most = max(wanted(wave) for wave in get_workload(name).batch(seed).waves)
        assert most < 0.9 * SMALLEST if name == "fits" else most > 3 * SMALLEST


@pytest.mark.parametrize("agents", [0, -1])
def test_no_agents_are_no_batch(agents) -> None:
    with pytest.raises(ValueError, match=f"agents must be at least 1, got {agents}"):
        get_workload("swe").batch(0, agents)


def test_swe_sessions_have_the_published_quantiles() -> None:
    plans = get_workload("swe").batch(0, 500).plans
    steps = [step for plan in plans for step in plan.steps]
    for values, published in (
        ([len(plan.steps) for plan in plans], (52, 76, 115)),
        ([plan.steps[0].prompt for plan in plans], (1456, 1626, 2326)),
        ([plan.longest for plan in plans], (21_600, 34_000, 56_200)),
        (added(plans), (30, 120, 547)),
        ([step.output for step in steps], (54, 89, 616)),
        ([step.tool_s for step in steps], (0.18, 0.25, 0.47)),
    ):
        assert three(values) == pytest.approx(published, rel=0.1)
    assert max(plan.longest for plan in plans) == pytest.approx(101_900, rel=0.15)
    assert sum(step.tool_s for step in steps if step.tool_s > 5) == pytest.approx(
        0.36 * sum(step.tool_s for step in steps), rel=0.15
    )


def test_coding_sessions_are_as_recorded_when_cut_at_the_engines_length() -> None:
    plans = get_workload("coding-sessions").batch(0, 1500).plans
    steps = [step for plan in plans for step in plan.steps]
    for values, recorded in (
        ([len(plan.steps) for plan in plans], (7, 40, 89)),
        ([plan.steps[0].prompt for plan in plans], (14_487, 20_654, 96_249)),
        ([plan.longest for plan in plans], (53_977, 125_783, 130_738)),
        ([step.output for step in steps], (102, 206, 810)),
    ):
        assert three(values) == pytest.approx(recorded, rel=0.15, abs=1)
    assert three(added(plans))[1:] == pytest.approx((233, 2732), rel=0.15)
    assert at([plan.prefix_tokens for plan in plans], 0.5) == pytest.approx(15_000, rel=0.1)


def test_what_is_added_after_a_long_output_is_less() -> None:
    plans = get_workload("swe").batch(0, 200).plans
    pairs = [(a.output, b.prompt - a.prompt - a.output) for p in plans for a, b in pairwise(p.steps)]
    after_long = at([more for output, more in pairs if output > 400], 0.5)
    after_short = at([more for output, more in pairs if output < 80], 0.5)
    assert after_long < 0.6 * after_short


def test_react_grows_by_about_a_thousand_tokens_in_each_of_ten_steps() -> None:
    plans = get_workload("react-10").batch(0).plans
    grown = [b.prompt - a.prompt for plan in plans for a, b in pairwise(plan.steps)]
    assert sum(grown) / len(grown) == pytest.approx(1000, rel=0.1)
    assert three([len(plan.steps) for plan in plans]) == pytest.approx([9, 10, 11], abs=1)


def test_mixed_is_half_and_half_and_shuffled() -> None:
    kinds = [plan.prefix for plan in get_workload("mixed").batch(0).plans]
    assert sum(kinds) == len(kinds) // 2
    assert kinds not in ([0, 1] * (len(kinds) // 2), [1, 0] * (len(kinds) // 2), sorted(kinds))


def test_no_shared_prefix_shares_nothing() -> None:
    assert not any(plan.prefix_tokens for plan in get_workload("no-shared-prefix").batch(0).plans)


def test_one_step_in_a_hundred_holds_a_third_of_the_slow_tools_time() -> None:
    times = sorted(step.tool_s for plan in get_workload("slow-tools").batch(0, 300).plans for step in plan.steps)
    assert sum(times[-len(times) // 100 :]) / sum(times) == pytest.approx(1 / 3, abs=0.06)
    assert 500 < times[-1] <= 600


def test_the_cores_of_a_busy_host_are_what_its_batch_waits_for() -> None:
    batch = get_workload("busy-host").batch(0)
    tools = sum(step.tool_s for plan in batch.plans for step in plan.steps[:-1])
    assert batch.cores == CORES
    assert tools / CORES > 3 * max(sum(step.tool_s for step in plan.steps) for plan in batch.plans)


def test_rollouts_of_a_group_share_their_prompt_and_a_wave_has_whole_groups() -> None:
    batch = get_workload("rl-waves").batch(0)
    assert batch.update_s == UPDATE_S
    assert [len(wave) for wave in batch.waves] == [WAVE] * 3
    groups = [batch.plans[start : start + GROUP] for start in range(0, len(batch.plans), GROUP)]
    assert len({group[0].prefix for group in groups}) == len(groups)
    for group in groups:
        assert len({(plan.prefix, plan.prefix_tokens, plan.steps[0].prompt) for plan in group}) == 1
        assert group[0].prefix_tokens == group[0].steps[0].prompt
        assert len({len(plan.steps) for plan in group}) > 1
    assert any(max(len(p.steps) for p in wave) > 2 * at([len(p.steps) for p in wave], 0.5) for wave in batch.waves)


def test_judges_are_many_short_and_share_a_few_rubrics() -> None:
    plans = get_workload("judge").batch(0).plans
    assert len(plans) >= 1000
    assert {len(plan.steps) for plan in plans} == {2, 3, 4}
    rubrics = {(plan.prefix, plan.prefix_tokens) for plan in plans}
    assert len(rubrics) == len({plan.prefix for plan in plans}) == 8


def test_distillation_writes_more_than_it_reads() -> None:
    plans = get_workload("distill").batch(0).plans
    outputs = [step.output for plan in plans for step in plan.steps]
    assert at(outputs, 0.5) == pytest.approx(4000, rel=0.15)
    assert sum(outputs) > 5 * sum(plan.steps[0].prompt + sum(added([plan])) for plan in plans)


def test_arrivals_are_spread_over_time() -> None:
    arrivals = [plan.arrival_s for plan in get_workload("arrivals").batch(0, 400).plans]
    gaps = [b - a for a, b in pairwise(arrivals)]
    assert min(gaps) >= 0
    assert sum(gaps) / len(gaps) == pytest.approx(40, rel=0.15)
    assert sum(gap < 40 for gap in gaps) / len(gaps) == pytest.approx(0.63, abs=0.06)  # 1 - 1/e: exponential


def test_the_page_says_what_the_workloads_are() -> None:
    text = PAGE.read_text()
    assert filled(text) == text, "run: python -m benchmarks.lab.workloads --write"
    assert all(f"`{name}`" in text for name in NAMES)


def test_the_command_prints_a_row_for_each_workload_and_for_a_recording(tmp_path, capsys) -> None:
    trace = tmp_path / "mine.jsonl"
    trace.write_text('{"steps": [{"p": 10, "o": 2}]}\n')
    assert command.main(["--trace", str(trace)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 2 + len(NAMES) + 1
    assert rows[-1].startswith("| `trace:mine.jsonl` | 1 | 1 | 10 | 12 | 2 |")


def test_the_command_says_what_is_wrong_with_a_recording(tmp_path, capsys) -> None:
    assert command.main(["--trace", str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl: cannot be read" in capsys.readouterr().err
