"""Every kind of problem: where it is, what is wanted, what is there; and never a secret."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import pytest

from concur_agents import ConcurError, ConfigError
from concur_agents.config import load_config

URL = "http://127.0.0.1:30000"
WINDOW = "unlimited or a number of agents of at least 1"
KNOWN = "known: engines, controller, law, tick, stale_after, fallback, history, identity, logging"
SEVERAL = "must be a list of at most 256 different engines"
ADDRESS = "an address like http://127.0.0.1:30000"
SCHEME = "must start with http:// or https://, got 'x:1' (did you mean 'http://x:1'?)"
LAWS = "budget, concur, fixed, uncontrolled or package.module:Class"


def problems(source: Any, **env: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_config(source, env=env)
    assert "pydantic" not in str(caught.value)
    return caught.value.problems


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"tick": 0}, "tick must be a number of seconds above 0, at most 3600, got 0"),
        ({"tick": True}, "tick must be a number of seconds above 0, at most 3600, got true"),
        ({"tick": "1"}, "tick must be a number of seconds above 0, at most 3600, got '1'"),
        ({"tick": 4000.5}, "tick must be a number of seconds above 0, at most 3600, got 4000.5"),
        ({"stale_after": -1}, "stale_after must be a number of seconds above 0, got -1"),
        ({"fallback": 0.5}, f"fallback must be {WINDOW}, got 0.5"),
        ({"fallback": None}, f"fallback must be {WINDOW}, got null"),
        ({"fallback": float("nan")}, f"fallback must be {WINDOW}, got nan"),
        ({"history": 1.5}, "history must be a whole number from 1 to 1000000000, got 1.5"),
        ({"history": 10**5000}, "history must be a whole number from 1 to 1000000000, got a very large number"),
        ({"identity": {"header": "a b"}}, "identity.header must be the name of an HTTP header, or null, got 'a b'"),
        ({"identity": 3}, "identity must be a block of fields, got 3"),
        ({"logging": ["x"]}, "logging must be a block of fields, got a list"),
        (
            {"logging": {"level": "loud"}},
            "logging.level must be debug, info, warning, error, critical or null, got 'loud'",
        ),
        ({"logging": {"events": ""}}, "logging.events must be the path of a file, or null, got ''"),
        (
            {"logging": {"events": "x" * 100}, "tick": 0},
            "tick must be a number of seconds above 0, at most 3600, got 0",
        ),
        ({"law": {"margin": 1}}, "law.margin must be a number from 0, below 1, got 1"),
        ({"law": {"ahead": -1}}, "law.ahead must be a number of at least 0, got -1"),
        ({"law": {"ahead": math.inf}}, "law.ahead must be a number of at least 0, got inf"),
        ({"law": {"patience": 0}}, "law.patience must be a number above 0, got 0"),
        ({"law": {"name": "concur", "u_low": 3}}, "law.u_low must be a number from 0 to 1, got 3"),
        ({"law": {"name": "concur", "beta": 0}}, "law.beta must be a number above 0, at most 1, got 0"),
        ({"law": {"name": "concur", "u_low": 0.8}}, "law.u_high must be a number from u_low (0.8) to 1, got 0.5"),
        ({"law": {"name": "concur", "u_high": 0.1}}, "law.u_high must be a number from u_low (0.2) to 1, got 0.1"),
        ({"law": {"name": "concur", "start": 0}}, f"law.start must be {WINDOW}, got 0"),
        ({"law": {"name": "fixed"}}, f"law.n is missing: it must be {WINDOW}"),
        ({"law": "fixed:x"}, f"law.n must be {WINDOW}, got 'x'"),
        ({"law": "concurr"}, f"law.name must be {LAWS}, got 'concurr' (did you mean concur?)"),
        ({"law": {"name": 3}}, f"law.name must be {LAWS}, got 3"),
        ({"law": 3}, f"law must be {LAWS}, got 3"),
        ({"law": "a b:C"}, f"law.name must be {LAWS}, got 'a b:C'"),
        ({"law": {"margn": 1}}, "law.margn is not a known field (did you mean margin?)"),
        ({"law": {"name": "concur", "alfa": 1}}, "law.alfa is not a known field (did you mean alpha?)"),
        ({"law": {"alpha": 1}}, "law.alpha is not a known field (did you mean ahead?)"),
        ({"law": {"name": "uncontrolled", "n": 1}}, "law.n is not a known field (known: name)"),
        ({"histori": 1}, "histori is not a known field (did you mean history?)"),
        ({"zzz": 1}, f"zzz is not a known field ({KNOWN})"),
        ({"logging": {"Level": 1}}, "logging.Level is not a known field (did you mean level?)"),
        ({3: 1}, f"3 is not a known field ({KNOWN})"),
        ({10**5000: 1}, f"a very large number is not a known field ({KNOWN})"),
        ({"a\nb": 1}, f"'a\\nb' is not a known field ({KNOWN})"),
        ({"engines": 3}, f"engines {SEVERAL}, got 3"),
        ({"engines": [URL]}, f"engines[0] must be a block of fields, got {URL!r}"),
        (
            {"engines": [{"url": URL}, {"url": f"{URL}/v1"}]},
            f"engines must not hold an engine twice, got {URL}",
        ),
        ({"engines": [{"url": f"{URL}/{number}"} for number in range(257)]}, f"engines {SEVERAL}, got 257"),
        (
            {"engines": [{"kind": "vllm"}]},
            "engines[0].url is missing: it must be an address like http://127.0.0.1:30000",
        ),
        ({"engines": [{"url": 3}]}, f"engines[0].url must be {ADDRESS}, got 3"),
        ({"engines": [{"url": "x:1"}]}, f"engines[0].url {SCHEME}"),
        ({"engine": "ftp://x"}, "engine must start with http:// or https://, got 'ftp://x'"),
        ({"engine": URL, "engines": [{"url": URL}]}, "engine and engines are both given: give one of them"),
        ({"engines": [{"url": URL, "kind": "tgi"}]}, "engines[0].kind must be sglang, vllm or tensorrt_llm, got 'tgi'"),
        ({"engines": [{"url": URL, "kid": "vllm"}]}, "engines[0].kid is not a known field (did you mean kind?)"),
        ({"concur": 3}, "concur must be a mapping of fields, got 3"),
        ({"concur": {"tick": 0}}, "concur.tick must be a number of seconds above 0, at most 3600, got 0"),
    ],
)
def test_one_problem(given: dict[Any, Any], problem: str) -> None:
    env = {} if {"engine", "engines"} & {*given} else {"CONCUR_ENGINE_URL": URL}
    assert problems(given, **env) == (problem,)


def test_all_problems_at_once_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "concur.yaml"
    path.write_text(
        "# mine\nlaw:\n  name: concur\n  u_low: 3\n\n  beta: 2\nengines:\n  - kind: x\n    url: x:1\nhistori: 1\n"
    )
    assert problems(path) == (
        f"{path}:9: engines[0].url {SCHEME}",
        f"{path}:8: engines[0].kind must be sglang, vllm or tensorrt_llm, got 'x'",
        f"{path}:6: law.beta must be a number above 0, at most 1, got 2",
        f"{path}:4: law.u_low must be a number from 0 to 1, got 3",
        f"{path}:10: histori is not a known field (did you mean history?)",
    )


def test_toml_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "concur.toml"
    path.write_text('[concur.law]\nname = "concur"\nu_low = 3\n')
    assert problems(path) == (f"{path}: concur.law.u_low must be a number from 0 to 1, got 3",)


def test_the_text_of_one_and_of_several() -> None:
    assert str(ConfigError("a")) == "a"
    assert str(ConfigError("a", "b")) == "2 problems in the configuration:\n  a\n  b"
    assert isinstance(ConfigError("a"), ConcurError | ValueError)
    assert pickle.loads(pickle.dumps(ConfigError("a", "b"))).problems == ("a", "b")


def test_something_that_holds_itself() -> None:
    loop: dict[str, Any] = {"engine": URL}
    loop["law"] = loop
    assert problems(loop) == ("the configuration must not be nested deeper than 20 levels",)


# --- the environment ---


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("CONCUR_ENGINE_URL", "x:1", SCHEME),
        ("CONCUR_ENGINE_KIND", "tgi", "must be sglang, vllm or tensorrt_llm, got 'tgi'"),
        ("CONCUR_FALLBACK", "none", f"must be {WINDOW}, got 'none'"),
        ("CONCUR_FALLBACK", "0", f"must be {WINDOW}, got 0"),
        ("CONCUR_LAW", "concurr", f"must be {LAWS}, got 'concurr' (did you mean concur?)"),
        ("CONCUR_LOG_LEVEL", "loud", "must be debug, info, warning, error, critical or null, got 'loud'"),
        ("CONCUR_ENGINE_API_KEY", "a b", "must hold visible ASCII characters without spaces (not shown)"),
    ],
)
def test_a_bad_variable_is_named(name: str, value: str, problem: str) -> None:
    assert problems({"engine": URL}, **{name: value}) == (f"{name} {problem}",)


def test_what_a_variable_lacks_is_said_with_its_name() -> None:
    assert problems({"engine": URL}, CONCUR_LAW="fixed") == (f"CONCUR_LAW: law.n is missing: it must be {WINDOW}",)


def test_a_variable_does_not_hide_what_the_file_has_wrong() -> None:
    assert problems({"engines": 3}, CONCUR_ENGINE_URL=URL) == (f"engines {SEVERAL}, got 3",)
    assert problems({"engines": [3]}, CONCUR_ENGINE_KIND="vllm") == ("engines[0] must be a block of fields, got 3",)
    (twice,) = problems(None, CONCUR_ENGINE_URL=f"{URL} {URL}")
    assert twice.endswith(f"must not hold an engine twice, got {URL}")
    assert problems({"engine": URL, "logging": 3}, CONCUR_LOG_LEVEL="info") == (
        "logging must be a block of fields, got 3",
    )


def test_the_file_that_a_variable_names() -> None:
    assert problems(None, CONCUR_CONFIG="/nowhere/c.yaml") == (
        "CONCUR_CONFIG: /nowhere/c.yaml: cannot be read: No such file or directory",
    )


# --- secrets ---

KEY = "sk-0123456789abcdef"


@pytest.mark.parametrize(
    "engine",
    [
        {"url": URL, "api_key": KEY},
        {"url": URL, "api_key_env": KEY},
        {"url": URL, "api_key_env": KEY.replace("-", "_")},
        {"url": URL, "api_key_env": {"key": KEY}},
        {"url": URL, "api_key_env": 3, "token": KEY},
        {"url": f"http://user:{KEY}@host"},
        {"url": f"http://host?key={KEY}"},
        {"url": f"http://host#{KEY}"},
        {"url": {"key": KEY}},
    ],
    ids=str,
)
def test_a_key_is_never_shown(engine: dict[str, Any]) -> None:
    text = "\n".join(problems({"engines": [engine]}))
    assert KEY not in text
    assert KEY.replace("-", "_") not in text


def test_where_a_key_belongs() -> None:
    (problem,) = problems({"engines": [{"url": URL, "api_key": KEY}]})
    assert problem.endswith("put the key into an environment variable, and its name into api_key_env")
    assert problems({"engines": [{"url": URL, "api_key_env": "NOT_SET"}]}) == (
        "engines[0].api_key_env must name an environment variable that is set (not shown: it may be a key)",
    )
    (problem,) = problems({"engines": [{"url": URL, "api_key_env": "K"}]}, K="a\nb")
    assert problem.endswith("that holds visible ASCII characters without spaces (not shown)")


# --- laws of a user's own ---

BROKEN = "def Broken():\n    raise RuntimeError('law is broken')\ndef NoLaw(x=1):\n    return x\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_laws_for_a_test.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    return "own_laws_for_a_test"


def test_a_law_that_cannot_be_imported(own: str) -> None:
    (problem,) = problems({"engine": URL, "law": "no_such_package.x:Law"})
    assert problem.startswith("law cannot be imported from 'no_such_package.x:Law': ModuleNotFoundError")
    (problem,) = problems({"engine": URL, "law": f"{own}:Missing"})
    assert problem.startswith(f"law cannot be imported from '{own}:Missing': AttributeError")


def test_a_law_that_cannot_be_made(own: str) -> None:
    assert problems({"engine": URL, "law": f"{own}:Broken"}) == (
        f"law cannot be made by '{own}:Broken': RuntimeError: law is broken",
    )
    (problem,) = problems({"engine": URL, "law": {"name": "concur_agents.laws:FixedWindow", "m": 3}})
    assert "unexpected keyword argument 'm'" in problem
    (problem,) = problems({"engine": URL, "law": {"name": "concur_agents.laws:FixedWindow", "n": 0}})
    assert "FixedWindow: n must be a number in [1, inf], got 0" in problem


def test_what_is_no_law(own: str) -> None:
    assert problems({"engine": URL, "law": {"name": f"{own}:NoLaw", "x": 3}}) == (
        f"law must be a law: what '{own}:NoLaw' makes has no decide() and initial",
    )
