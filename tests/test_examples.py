"""The examples, run as a user runs them, against the embedded engine."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from concur_agents import EngineSample, Population, Reason
from concur_agents.emulator import Emulator, ServiceConfig

EXAMPLES = Path(__file__).parent.parent / "examples"
AGENTS = [f"agent-{number}" for number in range(8)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Emulator(ServiceConfig.preset("laptop", speedup=100)) as emulator:
        yield emulator.url


def script(url: str, agent: str, tool: dict[str, Any]) -> None:
    """One tool call, then an answer that names the agent: it comes only when the tool's result went back."""
    body = {"session_id": agent, "replies": [{"tool_calls": [tool]}, {"content": f"answer of {agent}"}]}
    headers = {"Content-Type": "application/json"}
    urllib.request.urlopen(
        urllib.request.Request(f"{url}/emulator/scripts", json.dumps(body).encode(), headers)
    ).close()


def run(url: str, example: str) -> list[str]:
    environment = {**os.environ, "CONCUR_ENGINE_URL": url}
    done = subprocess.run(
        [sys.executable, EXAMPLES / example], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("example", "tool"),
    [
        ("in_process.py", {"name": "roll", "arguments": {"sides": 6}}),
        ("hand_written.py", {"name": "roll", "arguments": {"sides": 6}}),
        ("state_graph.py", {"name": "add", "arguments": {"a": 1, "b": 1}}),
        ("create_agent.py", {"name": "add", "arguments": {"a": 1, "b": 1}}),
    ],
)
def test_each_agent_of_the_example_gets_its_own_answer(url: str, example: str, tool: dict[str, Any]) -> None:
    for agent in AGENTS:
        script(url, agent, tool)
    answers = sorted(line[line.index("answer of ") :] for line in run(url, example))
    assert answers == [f"answer of {agent}" for agent in AGENTS]


def test_own_law_decides_from_the_first_window_on(url: str) -> None:
    assert "after=2.0, reason=<Reason.START" in run(url, "own_law.py")[0]


@pytest.mark.parametrize(
    ("usage", "window", "reason"), [(None, 5, Reason.UNKNOWN), (0.69, 6, Reason.GROW), (0.7, 4, Reason.CUT)]
)
def test_own_law_is_what_its_docstring_says(usage: float | None, window: float, reason: Reason) -> None:
    law = runpy.run_path(str(EXAMPLES / "own_law.py"))["OneByOne"]()
    decision = law.decide(EngineSample(pinned_usage=usage), Population(window=5))
    assert (decision.window, decision.reason) == (window, reason)


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example_is_short(example: Path) -> None:
    assert len(example.read_text().splitlines()) < 40
