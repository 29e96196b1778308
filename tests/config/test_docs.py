"""``docs/configuration.md`` says what the schema says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

import concur_agents
from concur_agents.config import ENVIRONMENT, load_config
from concur_agents.config.laws import LAWS
from concur_agents.config.schema import allowed, fields
from concur_agents.config.words import dotted, shown

PAGE = Path(concur_agents.__file__).parent.parent / "docs" / "configuration.md"
TEXT = PAGE.read_text() if PAGE.exists() else ""
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="not in a source tree")


def row(path: tuple[str | int, ...], field: object) -> str:
    """One line of the page's table."""
    default = field.default
    value = "unlimited" if default == math.inf else default if isinstance(default, str) else shown(default)
    written = "required" if field.is_required() else f"`{value}`"
    return f"| `{dotted(path)}` | {written} | {allowed(field)} | {field.description.replace('``', '`')} |"


ROWS = list(dict.fromkeys(row(path, field) for law in LAWS for path, field in fields(law) if path != ("law", "name")))


@pytest.mark.parametrize("line", ROWS, ids=lambda line: line.split("`")[1])
def test_every_field_is_there_with_its_default_and_range(line: str) -> None:
    assert line in TEXT


def test_no_other_field_is_there() -> None:
    table = TEXT.partition("<!-- fields -->")[2].partition("<!-- /fields -->")[0]
    written = [line for line in table.splitlines() if line.startswith("| `")]
    assert sorted(written) == sorted(ROWS)


@pytest.mark.parametrize("variable", ENVIRONMENT, ids=lambda variable: variable.name)
def test_every_variable_is_there(variable: object) -> None:
    assert f"| `{variable.name}` | {variable.meaning} |" in TEXT


def test_the_whole_file_shown_is_good_and_holds_the_defaults(tmp_path: Path) -> None:
    block = TEXT.partition("<!-- whole -->")[2].partition("```yaml\n")[2].partition("```")[0]
    data = yaml.safe_load(block)
    config = load_config(data, env={"ENGINE_KEY": "k"}).config
    written = config.model_dump()
    written["engines"] = [{**written["engines"][0], "api_key_env": None}]
    defaults = load_config({"engine": "http://127.0.0.1:30000"}, env={}).config.model_dump()
    assert written | {"engines": ()} == defaults | {"engines": ()}
    assert set(data["concur"]) == set(type(config).model_fields)
