"""Without the extra: everything else works, and configuration says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
sys.modules[{missing!r}] = None
import concur_agents, concur_agents.config
from concur_agents import Controller, shared_controller
for call in (Controller.from_config, shared_controller, concur_agents.config.load_config):
    try:
        call({{"engine": "http://127.0.0.1:1"}})
    except ImportError as error:
        print(error)
"""


@pytest.mark.parametrize("missing", ["pydantic", "yaml"])
def test_what_to_install(missing: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(missing=missing)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [f"configuration needs {missing}: pip install 'concur-agents[config]'"] * 3


def test_the_json_schema_needs_it_too() -> None:
    code = "import sys; sys.modules['pydantic'] = None; from concur_agents.config import json_schema; json_schema()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: configuration needs pydantic: pip install 'concur-agents[config]'" in done.stderr
