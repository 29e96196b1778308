"""``Controller.from_config``, and the header that names agents."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from concur_agents import ConfigError, Controller, FixedWindow, TokenBudget
from concur_agents.config import ENVIRONMENT
from concur_agents.emulator import Emulator
from concur_agents.testing import ManualClock, ScriptedReader

URL = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither this machine's environment nor its log levels."""
    for variable in ENVIRONMENT:
        monkeypatch.delenv(variable.name, raising=False)
    log = logging.getLogger("concur_agents")
    before = log.level
    yield
    log.setLevel(before)


def test_it_is_made_but_not_started() -> None:
    concur = Controller.from_config({"engine": URL, "law": "fixed:3", "tick": 60})
    assert concur.stats().window == 3
    assert not concur.closed
    with concur as started:
        assert started is concur
    assert concur.closed


def test_every_setting_reaches_the_controller() -> None:
    made = Controller.from_config(
        {
            "engine": URL,
            "law": {"ahead": 5},
            "tick": 0.5,
            "stale_after": 7,
            "fallback": 9,
            "history": 3,
            "identity": {"header": "X-Agent"},
        },
        background=False,
    )
    with made:
        governor = made._governor
        assert governor._law == TokenBudget(ahead=5)
        assert (made._tick_s, governor._stale_after, governor._fallback) == (0.5, 7, 9)
        assert governor.history.maxlen == 3
        assert made.session_header == "X-Agent"
        assert repr(made._reader) == f"SGLang('{URL}')"


def test_overrides_win_over_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCUR_LAW", "fixed:2")
    settings: dict[str, Any] = {"law": FixedWindow(5), "clock": ManualClock(), "background": False}
    with Controller.from_config({"engine": URL, "law": "fixed:1"}, **settings) as concur:
        assert concur.stats().window == 5
    with pytest.raises(ValueError, match="tick must be"):
        Controller.from_config({"engine": URL}, tick=0)
    with pytest.raises(TypeError, match="tik"):
        Controller.from_config({"engine": URL}, tik=1)


def test_with_a_reader_of_ones_own_no_engine_need_be_known() -> None:
    with Controller.from_config({"law": "uncontrolled"}, reader=ScriptedReader(), background=False) as concur:
        assert concur.stats().window == math.inf


def test_the_environment_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no engine is known"):
        Controller.from_config()
    monkeypatch.setenv("CONCUR_ENGINE_URL", URL)
    assert Controller.from_config().stats().window == TokenBudget().initial
    path = tmp_path / "c.yaml"
    path.write_text("law: fixed:4\n")
    monkeypatch.setenv("CONCUR_CONFIG", str(path))
    assert Controller.from_config().stats().window == 4


def test_a_subclass_makes_its_own() -> None:
    class Mine(Controller):
        pass

    assert type(Mine.from_config({"engine": URL})) is Mine


def test_the_log_level_is_the_loggers() -> None:
    log = logging.getLogger("concur_agents")
    log.setLevel(logging.ERROR)
    Controller.from_config({"engine": URL})
    assert log.level == logging.ERROR
    handlers = list(log.handlers)
    Controller.from_config({"engine": URL, "logging": {"level": "debug"}})
    assert log.level == logging.DEBUG
    assert log.handlers == handlers


def test_it_reads_a_real_engine_with_a_key_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_KEY", "secret")
    with Emulator() as engine:
        config = {"engines": [{"url": engine.url, "api_key_env": "ENGINE_KEY"}]}
        with Controller.from_config(config, background=False) as concur:
            concur.tick()
            assert concur.stats().sample is not None
            assert "secret" not in repr(concur._reader)


# --- the header ---


@pytest.mark.parametrize("name", ["X-Agent", "x_trace.id"])
def test_agents_are_named_by_the_header(name: str) -> None:
    with Controller(ScriptedReader(), session_header=name, background=False) as concur:
        assert concur.session_header == name
        assert concur.agent("a").headers == {name: "a"}
        assert concur.sync.agent("b ü").headers == {name: "b%20%C3%BC"}
        with concur.sync.agent("c"):
            inside = concur.current_agent()
            assert inside is not None
            assert inside.headers == {name: "c"}


def test_without_a_header_agents_are_not_named() -> None:
    with Controller(ScriptedReader(), session_header=None, background=False) as concur:
        assert concur.agent("a").headers == {}
        assert concur.sync.agent("a").headers == {}


@pytest.mark.parametrize("name", ["", "a b", "a:b", "ä", "a\n", 3, ["x"]])
def test_what_is_no_header(name: Any) -> None:
    with pytest.raises(ValueError, match="session_header must be the name of an HTTP header, or None, got"):
        Controller(ScriptedReader(), session_header=name)
