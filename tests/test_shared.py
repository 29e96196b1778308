"""One controller a process and configuration; gone at exit, not inherited by a child."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from concur_agents import ConfigError, Controller, shared, shared_controller
from concur_agents.config import ENVIRONMENT, load_config

CONFIG = {"engine": "http://127.0.0.1:1", "law": "fixed:3", "tick": 60}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody else's controllers, nor this machine's environment."""
    for variable in ENVIRONMENT:
        monkeypatch.delenv(variable.name, raising=False)
    state = shared._State()
    monkeypatch.setattr(shared, "_state", state)
    monkeypatch.setattr(state, "_prepared", True)  # closed here, not at this process's exit
    yield
    state.close()


def run(code: str, *args: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, check=False, timeout=timeout
    )


def test_it_is_started_and_always_the_same() -> None:
    first = shared_controller(CONFIG)
    assert isinstance(first, Controller)
    with first.sync.agent("a") as agent, agent.step():
        pass
    assert shared_controller(dict(CONFIG)) is first
    assert shared_controller(load_config(CONFIG).config) is first
    assert first.stats().window == 3


def test_equal_from_wherever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(json.dumps({"other": 1, "concur": CONFIG}))
    monkeypatch.setenv("CONCUR_CONFIG", str(path))
    assert shared_controller() is shared_controller(path) is shared_controller(CONFIG)


def test_another_configuration_has_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    first = shared_controller(CONFIG)
    assert shared_controller({**CONFIG, "law": "fixed:4"}) is not first
    monkeypatch.setenv("CONCUR_LAW", "fixed:5")
    assert shared_controller(CONFIG).stats().window == 5
    monkeypatch.delenv("CONCUR_LAW")
    assert shared_controller(CONFIG) is first


def test_many_threads_get_the_same() -> None:
    with ThreadPoolExecutor(16) as pool:
        assert len({id(one) for one in pool.map(lambda _: shared_controller(CONFIG), range(64))}) == 1


def test_one_that_somebody_closed_is_made_again() -> None:
    first = shared_controller(CONFIG)
    first.close()
    second = shared_controller(CONFIG)
    assert second is not first
    assert not second.closed


def test_problems_are_raised() -> None:
    with pytest.raises(ConfigError, match="no engine is known"):
        shared_controller()


EXIT = """
import atexit, sys
def told():
    print("closed", concur.closed, flush=True)
atexit.register(told)  # runs after what is registered later
from concur_agents import shared_controller
concur = shared_controller({"engine": sys.argv[1], "logging": {"level": "error", "events": sys.argv[2]}})
concur.sync.agent("a").__enter__().step().__enter__()
if len(sys.argv) > 3:
    raise SystemExit(7)
"""


@pytest.mark.parametrize(("how", "status"), [([], 0), (["raise"], 7)])
def test_it_is_closed_at_exit(tmp_path: Path, how: list[str], status: int) -> None:
    events = tmp_path / "e"
    done = run(EXIT, "http://127.0.0.1:1", str(events), *how)
    assert (done.returncode, done.stdout, done.stderr) == (status, "closed True\n", "")
    last = json.loads(events.read_text().splitlines()[-1])
    assert (last["kind"], last["outcome"]) == ("finished", "cancelled")


HANGING = """
import socket, sys, threading
server = socket.create_server(("127.0.0.1", 0))  # accepts, and never answers
from concur_agents import shared_controller
shared_controller({"engine": f"http://127.0.0.1:{server.getsockname()[1]}", "tick": 600})
connection = server.accept()
"""


def test_an_engine_that_hangs_does_not_hang_the_exit() -> None:
    began = time.monotonic()
    done = run(HANGING)
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < 30, "not the reading's own 480 s"


FORK = """
import os, sys, threading
from concur_agents import shared_controller
config = {"engine": "http://127.0.0.1:1", "law": "fixed:1", "tick": 60}
parent = shared_controller(config)
from concur_agents import shared
shared._state.lock.acquire()  # the child must not inherit it either
child = os.fork()
if child == 0:
    mine = shared_controller(config)
    alive = any(thread.name == "concur-control" for thread in threading.enumerate())
    with mine.sync.agent("a") as agent, agent.step():
        pass
    sys.exit(3 if mine is not parent and alive and mine is shared_controller(config) else 4)
shared._state.lock.release()
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
with parent.sync.agent("b") as agent, agent.step():
    pass
print(status, shared_controller(config) is parent, parent.closed)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_makes_its_own() -> None:
    done = run(FORK)
    assert (done.stdout, done.returncode) == ("3 True False\n", 0), done.stderr
