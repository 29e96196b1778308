"""Which engines there are, and what each can be told."""

import pytest

from benchmarks.engines.kinds import SGLANG, VLLM_KIND
from benchmarks.engines.wire import EngineError
from benchmarks.lab.arms import parse_arms
from benchmarks.lab.arms.base import Arm
from benchmarks.lab.real.backends import get_backend, server_flags
from benchmarks.lab.real.predict import emulator_of
from concur_agents.emulator import CostModel


def test_a_request_cap_is_a_flag_of_the_server_and_other_arms_need_none(lab_engine) -> None:
    cap, fixed = parse_arms("requests:8,fixed:8")
    assert server_flags(cap, lab_engine, SGLANG) == ("--max-running-requests", "8")
    assert server_flags(fixed, lab_engine, None) == ()


def test_a_cache_tier_in_host_memory_is_flags_of_sglang(lab_engine) -> None:
    (tier,) = parse_arms("hicache:budget")
    assert server_flags(tier, lab_engine, SGLANG) == ("--enable-hierarchical-cache", "--hicache-ratio", "2")
    with pytest.raises(EngineError, match="vLLM is not told here"):
        server_flags(tier, lab_engine, VLLM_KIND)


def test_what_a_server_cannot_be_told_is_said(lab_engine) -> None:
    cap = parse_arms("requests:8")[0]
    with pytest.raises(EngineError, match="requests:8 needs another flag"):
        server_flags(cap, lab_engine, None)
    other = Arm("other", cap.gate, lambda engine: engine.with_config(page_size=2))
    with pytest.raises(EngineError, match="changes more"):
        server_flags(other, lab_engine, SGLANG)


def test_vllm_has_its_own_flag_scheduler_and_reading(tmp_path) -> None:
    backend = get_backend("vllm", venv=tmp_path)
    assert backend.starts is VLLM_KIND
    scheduling = {"max_total_tokens": 16_000, "context_length": 8192, "page_size": 32, "max_batched_tokens": 4096}
    engine = emulator_of(
        "vllm", {**scheduling, "max_running_requests": 256}, CostModel(prefill_token_s=1e-3, decode_base_s=0.01)
    )
    sample = engine.reader(engine.scheduler()).read(1.0)
    assert (sample.engine, sample.capacity_tokens) == ("vllm", 16_000)
    assert server_flags(parse_arms("requests:8")[0], engine, backend.starts) == ("--max-num-seqs", "8")


def test_what_there_is_not_is_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match="engine must be one of sglang, vllm, emulator"):
        get_backend("gpu")
    with pytest.raises(ValueError, match="vllm needs"):
        get_backend("vllm")


async def test_a_server_that_was_not_started_here_takes_no_flags() -> None:
    for kind in ("sglang", "vllm"):
        backend = get_backend(kind, url="http://127.0.0.1:9")
        assert backend.starts is None
        with pytest.raises(EngineError, match="not started here"):
            async with backend.open(("--max-num-seqs", "8")):
                pass


async def test_an_environment_without_vllm_is_said(tmp_path) -> None:
    with pytest.raises(EngineError, match="name an environment with vLLM"):
        async with get_backend("vllm", venv=tmp_path).open(()):
            pass
