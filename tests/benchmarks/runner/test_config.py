"""RunConfig refuses what cannot run, and survives the trip through JSON."""

import json
import re

import pytest

from benchmarks.swebench.config import MIN_TICK_S, RunConfig


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("agents", 0),
        ("repeats", 0),
        ("pool_tokens", -1),
        ("max_steps", 0),
        ("generation_timeout_s", 0.0),
        ("launch_rate", -1.0),
        ("speedup", 0.0),
        ("speedup", float("inf")),
        ("speedup", float("nan")),
        ("command_timeout_s", 0.0),
        ("characters_per_token", -4),
        ("characters_per_token", 6),
        ("framework", "crewai"),
        ("replies", "improvised"),
        ("arms", ()),
        ("engine", "localhost:30000"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name_and_value(field, value):
    with pytest.raises(ValueError, match=f"^{field} .*{re.escape(str(value)) if value != () else ''}"):
        RunConfig(**{field: value})


def test_a_front_says_a_scripts_words_and_so_not_the_models():
    with pytest.raises(ValueError, match="a front says a script's words"):
        RunConfig(engine="http://engine:1", replies="model", characters_per_token=4)


def test_config_survives_json():
    config = RunConfig(agents=3, arms=("fixed:2", "concur"), tasks=("a",), seed=7)
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_config_of_another_version_is_refused_by_field():
    with pytest.raises(ValueError, match="colour"):
        RunConfig.from_json({"agents": 3, "colour": "red"})


def test_tick_is_one_engine_second():
    assert RunConfig(speedup=4.0).tick_s == 0.25


def test_tick_has_a_floor_however_fast_the_engine():
    assert RunConfig(speedup=1000.0).tick_s == MIN_TICK_S


def test_an_engine_elsewhere_keeps_wall_time():
    assert RunConfig(engine="http://engine:1", speedup=50.0).tick_s == 1.0
