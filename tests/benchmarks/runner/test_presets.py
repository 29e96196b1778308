"""Runs by name: each can be made, and says what the paper measured."""

from pathlib import Path

import pytest

from benchmarks.engines.kinds import Needs
from benchmarks.swebench.arms import parse_arms
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.presets import PRESETS, get_preset
from benchmarks.swebench.server import Server


@pytest.mark.parametrize("name", PRESETS)
def test_each_is_a_run_that_can_be_recorded(name):
    preset = get_preset(name)
    assert RunConfig.from_json(preset.config.to_json()) == preset.config
    assert len(parse_arms(",".join(preset.config.arms))) == len(preset.config.arms)


def test_every_row_of_the_papers_table_is_there_with_its_seconds():
    rows = {name: preset for name, preset in PRESETS.items() if preset.paper}
    assert set(rows) == {
        *(f"qwen3-32b-tp{tp}-b256" for tp in (2, 4, 8)),
        *(f"deepseek-v3-tp16-b{batch}" for batch in (16, 32, 40)),
    }
    ratio = {name: preset.paper["uncontrolled"] / preset.paper["concur"] for name, preset in rows.items()}
    assert ratio["qwen3-32b-tp8-b256"] == pytest.approx(4.09, abs=0.005)
    assert ratio["deepseek-v3-tp16-b40"] == pytest.approx(1.90, abs=0.005)


def test_a_server_on_several_machines_is_started_by_hand():
    server = get_preset("deepseek-v3-tp16-b16").server
    first, second = server.commands()
    assert ("--node-rank 0" in first, "--node-rank 1" in second) == (True, True)
    with pytest.raises(ValueError, match=r"cannot be started from here(.|\n)*--node-rank 1"):
        RunConfig(engine="launch", server=server)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"kind": "tgi", "model": "m"}, "server must be one of sglang, vllm, sglang-cpu, not 'tgi'"),
        ({"model": ""}, "model must name"),
        ({"model": "m", "nodes": 0}, "nodes must be at least 1, not 0"),
        ({"model": "m", "start_s": 0.0}, "start_s must be above 0"),
        ({"kind": "sglang-cpu", "model": "words", "nodes": 2}, "nodes must be 1 with sglang-cpu, not 2"),
    ],
)
def test_a_server_that_cannot_be_is_refused_by_field(fields, complaint):
    with pytest.raises(ValueError, match=complaint):
        Server(**fields)


def test_sglang_on_a_cpu_is_a_preset_with_every_kind_of_arm_and_a_front():
    config = get_preset("sglang-cpu").config
    kinds = {name.partition(":")[0] for name in config.arms}
    assert kinds == {"uncontrolled", "requests", "fixed", "concur", "budget", "proxy", "hicache"}
    assert (config.server.kind, config.characters_per_token) == ("sglang-cpu", 8)


def test_host_memory_on_a_cpu_takes_other_ways_to_copy_than_cudas(tmp_path):
    server = Server(kind="sglang-cpu", model="words", flags=("--page-size", "2"))
    plain, none = server.launch_for(Needs(), None)
    tiered, flags = server.launch_for(Needs(host_cache=2.0), tmp_path)
    assert none == ()
    assert plain.flags[-2:] == tiered.flags[-2:] == ("--page-size", "2")
    assert flags[:3] == ("--enable-hierarchical-cache", "--hicache-ratio", "2")
    assert flags[3:] == ("--hicache-io-backend", "direct", "--hicache-mem-layout", "layer_first")
    first, second = tiered.environment["PYTHONPATH"].split(":")
    assert (Path(first) / "sitecustomize.py").exists()
    assert second == plain.environment["PYTHONPATH"]
    assert (plain.python.name, tiered.python) == ("python", tmp_path)


def test_an_unknown_name_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="unknown preset 'h100': choose from laptop"):
        get_preset("h100")
