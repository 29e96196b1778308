"""Where values are from, and which one wins."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import ValidationError

from concur_agents import ConcurLaw, ConfigError, FixedWindow, TokenBudget, Uncontrolled
from concur_agents.config import load_config
from concur_agents.engines import VLLM, SGLang

URL = "http://127.0.0.1:30000"
ENGINE = {"engines": [{"url": URL}]}


def config(source: Any, **env: str) -> Any:
    return load_config(source, env=env).config


def origins(source: Any, **env: str) -> dict[str, tuple[str, str]]:
    return {field: (value, origin) for field, value, origin in load_config(source, env=env).values()}


def test_what_is_not_said_is_as_in_code() -> None:
    made = config(ENGINE)
    assert made.law.build() == TokenBudget()
    assert (made.tick, made.stale_after, made.fallback, made.history) == (1, 30, math.inf, 1000)
    assert (made.identity.header, made.logging.level, made.logging.events) == ("X-Session-ID", None, None)
    assert isinstance(made.engines[0].reader(), SGLang)


def test_every_field() -> None:
    made = config(
        {
            "engines": [{"url": URL + "/v1", "kind": "vllm", "api_key_env": "K"}],
            "law": {
                "name": "concur",
                "alpha": 1,
                "beta": 0.25,
                "u_low": 0.1,
                "u_high": 0.9,
                "h_thresh": 0.3,
                "start": 4,
            },
            "tick": 0.5,
            "stale_after": 60,
            "fallback": 32,
            "history": 10,
            "identity": {"header": None},
            "logging": {"level": "DEBUG", "events": Path("events.jsonl")},
        },
        K="secret",
    )
    assert made.law.build() == ConcurLaw(alpha=1, beta=0.25, u_low=0.1, u_high=0.9, h_thresh=0.3, start=4)
    assert (made.tick, made.stale_after, made.fallback, made.history) == (0.5, 60, 32, 10)
    assert (made.identity.header, made.logging.level, made.logging.events) == (None, "debug", "events.jsonl")
    assert isinstance(made.engines[0].reader({"K": "secret"}), VLLM)


@pytest.mark.parametrize(
    ("law", "built"),
    [
        ("concur", ConcurLaw()),
        ("uncontrolled", Uncontrolled()),
        ("fixed:8", FixedWindow(8)),
        ({"name": "fixed", "n": 2.5}, FixedWindow(2.5)),
        ("budget", TokenBudget()),
        (
            {"name": "budget", "margin": 0.1, "ahead": 0, "patience": 2, "lost": 0.3},
            TokenBudget(margin=0.1, ahead=0, patience=2, lost=0.3),
        ),
        ({"ahead": 3}, TokenBudget(ahead=3)),
        ({"name": "concur", "alpha": 3}, ConcurLaw(alpha=3)),
        ({"name": "concur", "start": "unlimited"}, ConcurLaw()),
        ({"name": "concur", "start": math.inf}, ConcurLaw()),
        ("concur_agents.laws:Uncontrolled", Uncontrolled()),
        ({"name": "concur_agents.laws.fixed:FixedWindow", "n": 3}, FixedWindow(3)),
        (None, TokenBudget()),
        ({}, TokenBudget()),
    ],
)
def test_laws(law: Any, built: object) -> None:
    assert config({**ENGINE, "law": law}).law.build() == built


def test_short_form_of_an_engine() -> None:
    assert config({"engine": URL}) == config(ENGINE)


def test_a_block_with_nothing_in_it_is_none() -> None:
    assert config({"engine": URL, "law": None, "identity": None, "logging": None, "engines": None}) == config(ENGINE)


@pytest.mark.parametrize("kind", [OrderedDict, MappingProxyType, dict])
def test_any_kind_of_mapping(kind: type[Any]) -> None:
    assert config(kind({"engines": ({"url": URL},), "law": kind({"ahead": 3})})).law.ahead == 3


def test_the_block_of_a_users_own_file() -> None:
    assert config({"model": "m", "concur": {"engine": URL, "tick": 2}}).tick == 2


def test_a_configuration_is_taken_as_it_is() -> None:
    made = config(ENGINE)
    assert load_config(made, env={"CONCUR_FALLBACK": "x"}).config is made


def test_it_is_frozen() -> None:
    with pytest.raises(ValidationError):
        config(ENGINE).tick = 3


# --- the environment ---


def test_the_environment_alone_is_enough() -> None:
    made = config(
        None,
        CONCUR_ENGINE_URL=URL,
        CONCUR_ENGINE_KIND="vllm",
        CONCUR_ENGINE_API_KEY="secret",
        CONCUR_FALLBACK="12",
        CONCUR_LAW="fixed:8",
        CONCUR_LOG_LEVEL="Info",
    )
    assert (made.engines[0].url, made.engines[0].kind) == (URL, "vllm")
    assert (made.fallback, made.law.build(), made.logging.level) == (12, FixedWindow(8), "info")
    assert "secret" not in repr(made)


def test_the_environment_can_name_several_engines_and_says_the_rest_of_all() -> None:
    variables = {"CONCUR_ENGINE_URL": " http://a  http://b ", "CONCUR_ENGINE_KIND": "vllm"}
    for source in (None, {"engine": "http://c"}, {"engines": [{"url": "http://c"}, {"url": "http://d"}]}):
        made = config(source, **variables)
        assert [(each.url, each.kind) for each in made.engines] == [("http://a", "vllm"), ("http://b", "vllm")]
    both = [{"url": "http://c", "kind": "sglang"}, {"url": "http://d"}]
    assert [each.kind for each in config({"engines": both}, CONCUR_ENGINE_KIND="vllm").engines] == ["vllm"] * 2
    assert [each.url for each in config({"engines": both}, CONCUR_ENGINE_URL="http://a").engines] == ["http://a"]


@pytest.mark.parametrize("text", ["unlimited", " unlimited ", "inf"])
def test_the_environment_can_open_up(text: str) -> None:
    assert config({**ENGINE, "fallback": 3}, CONCUR_FALLBACK=text).fallback == math.inf


def test_the_environment_wins_over_the_file_and_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("engine: http://file\ntick: 3\nlaw: {ahead: 5}\n")
    seen = origins(path, CONCUR_ENGINE_URL=URL, CONCUR_LAW="budget")
    assert seen["engines[0].url"] == (URL, "CONCUR_ENGINE_URL")
    assert seen["tick"] == ("3", f"{path}:2")
    assert seen["law.name"] == ("budget", "CONCUR_LAW")
    assert seen["law.ahead"] == ("5", f"{path}:3")
    assert seen["law.lost"] == ("0.15", "default")


def test_another_law_in_the_environment_takes_the_whole_block() -> None:
    seen = origins({**ENGINE, "law": {"name": "fixed", "n": 3}}, CONCUR_LAW="concur")
    assert seen["law.name"] == ("concur", "CONCUR_LAW")
    assert seen["law.alpha"] == ("2", "default")
    assert "law.n" not in seen


def test_the_same_law_in_the_environment_keeps_the_files_parameters() -> None:
    seen = origins({**ENGINE, "law": "fixed:8"}, CONCUR_LAW="fixed")
    assert (seen["law.name"], seen["law.n"]) == (("fixed", "CONCUR_LAW"), ("8", "the mapping"))


def test_an_empty_variable_is_none() -> None:
    assert config(ENGINE, CONCUR_ENGINE_URL="", CONCUR_LAW=" ", CONCUR_CONFIG="") == config(ENGINE)


def test_a_variable_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(f'engine = "{URL}"\ntick = 3\n')
    assert config(None, CONCUR_CONFIG=str(path)).tick == 3
    assert config({**ENGINE, "tick": 4}, CONCUR_CONFIG=str(path)).tick == 4


def test_the_users_mapping_is_left_alone() -> None:
    source: Mapping[str, Any] = {"engines": [{"url": "http://a"}], "law": {"ahead": 1}, "logging": {}}
    config(source, CONCUR_ENGINE_URL=URL, CONCUR_LAW="fixed:2", CONCUR_LOG_LEVEL="info")
    assert source == {"engines": [{"url": "http://a"}], "law": {"ahead": 1}, "logging": {}}


def test_no_engine_is_a_problem_only_where_one_is_needed() -> None:
    with pytest.raises(ConfigError, match="no engine is known: set CONCUR_ENGINE_URL"):
        load_config({"tick": 2}, env={})
    assert load_config({"tick": 2}, env={}, engine=False).config.engines == ()
