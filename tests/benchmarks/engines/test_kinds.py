"""What a server is told for an arm."""

import pytest

from benchmarks.engines.kinds import SGLANG, VLLM_KIND, Needs, find_kind
from benchmarks.engines.launch import Launch
from benchmarks.engines.wire import EngineError


def test_nothing_is_needed_by_default():
    assert SGLANG.flags(Needs()) == VLLM_KIND.flags(Needs()) == ()


def test_each_kind_has_its_own_words():
    needs = Needs(max_running_requests=8)
    assert SGLANG.flags(needs) == ("--max-running-requests", "8")
    assert VLLM_KIND.flags(needs) == ("--max-num-seqs", "8")
    assert SGLANG.flags(Needs(host_cache=1.5)) == ("--enable-hierarchical-cache", "--hicache-ratio", "1.5")


def test_what_a_kind_cannot_be_told_is_said():
    with pytest.raises(EngineError, match="vLLM is not told here"):
        VLLM_KIND.flags(Needs(host_cache=1.0))


@pytest.mark.parametrize("field", [{"max_running_requests": 0}, {"host_cache": 0.0}, {"host_cache": float("inf")}])
def test_a_need_that_cannot_be_is_refused_by_name(field):
    (name,) = field
    with pytest.raises(ValueError, match=name):
        Needs(**field)


def test_an_unknown_kind_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="one of sglang, vllm, not 'tgi'"):
        find_kind("tgi")


def test_a_launch_has_what_concur_needs_once():
    launch = Launch(model="m", flags=("--tp", "8", "--enable-metrics"))
    assert launch.arguments(["--x"]) == ["--enable-cache-report", "--tp", "8", "--enable-metrics", "--x"]
    assert launch.command()[1:5] == ["-m", "sglang.launch_server", "--model-path", "m"]


def test_an_environment_that_is_not_there_is_named(tmp_path):
    with pytest.raises(EngineError, match="name an environment that has SGLang"):
        Launch(model="m", python=tmp_path / "none").command()
