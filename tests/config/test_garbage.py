"""Whatever it is given: a good configuration or a ConfigError, and nothing else."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from concur_agents import ConfigError
from concur_agents.config import ENVIRONMENT, load_config

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.binary(max_size=4)
    | st.dates()
    | st.decimals()
    | st.sampled_from(["http://127.0.0.1:30000", "concur", "fixed:8", "unlimited", "vllm", 10**400, ..., object()])
)
NAMES = """
engine engines url kind api_key_env api_key law name n alpha u_low u_high start tick stale_after fallback history
identity header logging level events concur
"""
names = st.sampled_from(NAMES.split())
keys = names | st.text(max_size=4) | st.integers() | st.none() | st.tuples(st.integers()) | st.just(10**400)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
near = st.fixed_dictionaries(
    {},
    optional={
        "engines": st.lists(st.dictionaries(names, scalars, max_size=3), max_size=2) | anything,
        "engine": scalars,
        "law": st.dictionaries(names, scalars, max_size=4) | anything,
        "logging": st.dictionaries(names, scalars, max_size=2) | anything,
        "identity": st.dictionaries(names, scalars, max_size=2) | anything,
        "tick": anything,
        "fallback": anything,
        "history": anything,
    },
)
variables = st.dictionaries(st.sampled_from([each.name for each in ENVIRONMENT if each.path]), st.text(max_size=12))


def good_or_problems(source: Any, env: dict[str, str]) -> None:
    try:
        loaded = load_config(source, env=env)
    except ConfigError as error:
        found = error.problems
    else:
        loaded.config.law.build()
        loaded.config.engines[0].reader(env)
        found = tuple(field for field, _, _ in loaded.values())
    assert found
    assert all(line.strip() for line in found)


@given(
    near | st.dictionaries(keys, anything, max_size=4) | st.fixed_dictionaries({"concur": near | anything}), variables
)
@settings(max_examples=300)
def test_any_mapping(source: Any, env: dict[str, str]) -> None:
    good_or_problems(source, env)


@given(st.text(max_size=60) | st.binary(max_size=40), st.sampled_from(["yaml", "toml"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_file(tmp_path: Path, text: str | bytes, suffix: str) -> None:
    path = tmp_path / f"c.{suffix}"
    path.write_bytes(text if isinstance(text, bytes) else text.encode(errors="surrogatepass"))
    good_or_problems(path, {})


@pytest.mark.parametrize("value", [datetime.date(2020, 1, 1), b"x", {1, 2}, range(3), object()])
def test_what_no_file_holds(value: object) -> None:
    for name in ("engines", "law", "tick", "identity", "logging"):
        with pytest.raises(ConfigError, match=f"^{name} must be "):
            load_config({"engine": "http://x", name: value} if name != "engines" else {name: value}, env={})
