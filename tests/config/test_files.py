"""Files: YAML and TOML, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from concur_agents import ConfigError
from concur_agents.config import load_config

URL = "http://127.0.0.1:30000"


def test_both_forms_say_the_same(tmp_path: Path) -> None:
    yaml, toml = tmp_path / "c.yml", tmp_path / "c.toml"
    yaml.write_text(f"\ufeffengines:\n  - url: {URL}\nlaw:\n  name: fixed\n  n: 8\nfallback: unlimited\n")
    toml.write_text(f'fallback = "unlimited"\nlaw = {{name = "fixed", n = 8}}\n[[engines]]\nurl = "{URL}"\n')
    assert load_config(yaml, env={}).config == load_config(str(toml), env={}).config


def test_a_block_in_a_users_file(tmp_path: Path) -> None:
    path = tmp_path / "agents.yaml"
    path.write_text(f"model: m\nconcur:\n  engine: {URL}\n  tick: 2\n")
    loaded = load_config(path, env={})
    assert loaded.config.tick == 2
    assert ("tick", "2", f"{path}:4") in loaded.values()
    assert ("engines[0].url", URL, f"{path}:3") in loaded.values()


def test_yaml_of_aliases_and_merges(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"concur:\n  engine: &e {URL}\n  law: {{<<: &l {{ahead: 3}}, margin: 0.1}}\nother: *e\n")
    assert load_config(path, env={}).config.law.ahead == 3


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "concur:\n", "null"])
def test_a_file_with_nothing_in_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    assert load_config(path, env={"CONCUR_ENGINE_URL": URL}).config.tick == 1
    with pytest.raises(ConfigError, match=r"c\.yaml: no engine is known"):
        load_config(path, env={})


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("c.yaml", "a: [1\nb: 2", ":2: is not YAML: expected ',' or ']', but got ':'"),
        ("c.yaml", "a: b: c", ":1: is not YAML: mapping values are not allowed here"),
        ("c.yaml", "a: !!python/object:os.system x", ":1: is not YAML: could not determine a constructor for the tag"),
        ("c.yaml", "a: 2020-13-45", ": is not YAML: ValueError('month must be in 1..12')"),
        ("c.yaml", "tick: 1\nlaw: x\ntick: 2", ":3: tick is given twice, first in line 1"),
        ("c.yaml", "- 1", ": the configuration must be a mapping of fields, got a list"),
        ("c.yaml", "[" * 5000, ": is not YAML: RecursionError"),
        ("c.yaml", "\x01", ": is not YAML: "),
        ("c.yaml", "tick: &t [*t]", ": the configuration must not be nested deeper than 20 levels"),
        ("c.toml", "a = ", ": is not TOML: Invalid value (at end of document)"),
        ("c.json", "{}", ": must end in .yaml, .yml or .toml"),
        ("c", "", ": must end in .yaml, .yml or .toml"),
    ],
)
def test_what_is_no_such_file(tmp_path: Path, name: str, text: str, problem: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, env={})
    assert str(caught.value).startswith(f"{path}{problem}")


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"c\.yaml: cannot be read: No such file or directory"):
        load_config(tmp_path / "c.yaml", env={})
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path, env={})
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config("a\0b.yaml", env={})
    (tmp_path / "c.yaml").write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match=r"is not UTF-8 text \(byte 3\)"):
        load_config(tmp_path / "c.yaml", env={})
