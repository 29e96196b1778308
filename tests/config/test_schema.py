"""The schema agrees with what it configures: laws, controller, readers; and says so as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concur_agents import ConcurLaw, ConfigError, Controller, FixedWindow, TokenBudget
from concur_agents.agents import SESSION_HEADER
from concur_agents.config import json_schema, load_config
from concur_agents.config.laws import LAWS
from concur_agents.config.models import Config, IdentityConfig
from concur_agents.config.schema import allowed, fields
from concur_agents.testing import ScriptedReader

numbers = st.floats() | st.sampled_from([0, 0.2, 0.5, 1, 2, -1, math.inf])


def accepts(data: dict[str, Any]) -> bool:
    try:
        load_config(data, env={}, engine=False)
    except ConfigError:
        return False
    return True


@given(st.dictionaries(st.sampled_from([field.name for field in dataclasses.fields(ConcurLaw)]), numbers))
def test_the_papers_law_has_the_laws_own_ranges(parameters: dict[str, float]) -> None:
    try:
        law = ConcurLaw(**parameters)
    except ValueError:
        assert not accepts({"law": {"name": "concur"} | parameters})
    else:
        data = {"law": {"name": "concur"} | parameters}
        assert load_config(data, env={}, engine=False).config.law.build() == law


@given(st.dictionaries(st.sampled_from([*LAWS["budget"].model_fields][1:]), numbers))
def test_the_token_budget_has_the_laws_own_ranges(parameters: dict[str, float]) -> None:
    try:
        law = TokenBudget(**parameters)  # type: ignore[arg-type]
    except ValueError:
        assert not accepts({"law": parameters})
    else:
        assert load_config({"law": parameters}, env={}, engine=False).config.law.build() == law


@given(numbers)
def test_a_fixed_window_has_the_laws_own_range(n: float) -> None:
    try:
        FixedWindow(n)
    except ValueError:
        assert not accepts({"law": {"name": "fixed", "n": n}})
    else:
        assert accepts({"law": {"name": "fixed", "n": n}})


def test_laws_have_the_laws_own_parameters() -> None:
    for name, law in (("concur", ConcurLaw), ("fixed", FixedWindow)):
        assert [*LAWS[name].model_fields] == ["name", *(field.name for field in dataclasses.fields(law))]


def test_the_token_budgets_parameters_are_its_first_fields_and_what_it_learns_is_none() -> None:
    parameters = [*LAWS["budget"].model_fields][1:]
    assert [field.name for field in dataclasses.fields(TokenBudget)][: len(parameters)] == parameters


@given(
    st.fixed_dictionaries(
        {}, optional={"tick": numbers, "stale_after": numbers, "fallback": numbers, "history": st.integers(-3, 10**10)}
    )
)
def test_what_is_accepted_the_controller_takes(settings: dict[str, Any]) -> None:
    if accepts(settings):
        Controller.from_config(settings, reader=ScriptedReader(), background=False).close()


@given(st.text(max_size=5) | st.from_regex(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", fullmatch=True))
def test_headers_are_those_the_controller_takes(name: str) -> None:
    try:
        Controller(ScriptedReader(), session_header=name, background=False).close()
    except ValueError:
        assert not accepts({"identity": {"header": name}})
    else:
        assert accepts({"identity": {"header": name}})


def test_the_header_is_the_controllers() -> None:
    assert IdentityConfig().header == SESSION_HEADER


def test_the_json_schema() -> None:
    schema = json.loads(json.dumps(json_schema(), allow_nan=False))
    assert set(schema["properties"]) == {*Config.model_fields, "engine"}
    assert schema["properties"]["fallback"]["default"] == "unlimited"
    assert schema["additionalProperties"] is False
    law = schema["$defs"]["ConcurLawConfig"]["properties"]
    assert (law["u_low"]["minimum"], law["u_low"]["maximum"], law["u_low"]["default"]) == (0, 1, 0.2)
    assert law["alpha"]["exclusiveMinimum"] == 0
    assert "name" in schema["$defs"]["ConcurLawConfig"]["required"]
    law = schema["$defs"]["BudgetLawConfig"]["properties"]
    assert (law["name"]["default"], law["margin"]["exclusiveMaximum"], law["ahead"]["minimum"]) == ("budget", 1, 0)


def test_every_field_says_what_it_is_and_what_it_may_hold() -> None:
    for law in LAWS:
        for path, field in fields(law):
            assert field.description, path
            assert allowed(field) != "something else", path


def test_every_section_and_field_of_the_json_schema_is_described() -> None:
    schema = json_schema()
    for block in (schema, *schema["$defs"].values()):
        assert block["description"]
        for name, field in block["properties"].items():
            assert field.get("description") or "$ref" in field, name


@pytest.mark.parametrize("name", ["budget", "concur", "fixed:3", "uncontrolled"])
def test_laws_survive_a_dump(name: str) -> None:
    config = load_config({"law": name}, env={}, engine=False).config
    assert load_config(config.model_dump(mode="json"), env={}, engine=False).config == config
