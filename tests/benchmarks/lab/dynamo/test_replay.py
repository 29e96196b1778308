"""Dynamo's report, and the comparison itself where Dynamo is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.dynamo import install
from benchmarks.lab.dynamo.install import DynamoError
from benchmarks.lab.dynamo.ours import run, side
from benchmarks.lab.dynamo.replay import engine_args, parse_report, replay

REPORT = Path(__file__).with_name("report.json")
"""Of Dynamo 1.4.2, for ``BATCH`` under a cap of 2; what it says of latencies is left out."""
BATCH = Batch.of(
    [
        Plan(
            f"agent-{number}",
            [Step(600 + 700 * step, 50 + 10 * number, 0.5) for step in range(4)],
            prefix_tokens=320,
        )
        for number in range(4)
    ]
)


def test_a_report_is_read() -> None:
    replayed = parse_report("a line of its log\n" + REPORT.read_text(encoding="utf-8"))
    assert replayed.turns == 16
    assert replayed.prompt_tokens == 4 * sum(600 + 700 * step for step in range(4))
    assert 0.5 < replayed.hit_rate < 0.7
    assert 5 < replayed.makespan_s < 20


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"duration_ms": 1}'])
def test_what_is_no_report_is_said(text: str) -> None:
    with pytest.raises(DynamoError, match="no report"):
        parse_report(text)


def test_dynamo_is_told_the_pool_in_its_blocks() -> None:
    args = engine_args("vllm", pool=3200, page=16, batched=8192, running=64)
    assert args["num_gpu_blocks"] == 200
    assert args["block_size"] == 16
    assert "sglang" not in args


def test_both_engines_have_the_same_room_for_requests() -> None:
    sglang, vllm = side("qwen3-32b-tp2", 40_000), side("vllm-qwen3-32b-tp2", 40_010)
    assert sglang.engine.config.max_total_tokens == sglang.pool == 40_000
    assert vllm.engine.config.blocks * vllm.page == vllm.pool == 40_000  # type: ignore[union-attr]


def test_an_environment_of_other_versions_is_not_used(tmp_path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert install.installed(tmp_path) is None
    (tmp_path / "installed").write_text("ai-dynamo==0.1\n")
    assert install.installed(tmp_path) is None
    (tmp_path / "installed").write_text(install.REQUIREMENTS.read_text(encoding="utf-8"))
    assert install.installed(tmp_path) == python


@pytest.mark.parametrize("engine", ["qwen3-32b-tp2", "vllm-qwen3-32b-tp2"])
@pytest.mark.parametrize("cap", [1, 2, 4])
def test_the_emulator_takes_as_long_as_dynamo_where_all_fits(engine: str, cap: int) -> None:
    python = install.installed()
    if python is None:
        pytest.skip("Dynamo is not installed: python -m benchmarks.lab dynamo install")
    our = side(engine, 20_000)
    args = engine_args(our.kind, pool=our.pool, page=our.page, batched=our.batched, running=our.running)
    theirs = replay(python, BATCH, args, our.timing, cap=cap, spare=our.spare)
    ours = run(BATCH, our, cap=cap)
    assert ours.makespan_s == pytest.approx(theirs.makespan_s, rel=0.02)
    assert ours.hit_rate == pytest.approx(theirs.hit_rate, abs=0.02)
