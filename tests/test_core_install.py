"""The core alone: what it brings, and that it works without anything else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import concur_agents

ROOT = Path(concur_agents.__file__).parent.parent
PROGRAM = """
from concur_agents import Controller
from concur_agents.engines import SGLang

with Controller(SGLang("http://127.0.0.1:9")) as concur, concur.sync.agent("a") as agent, agent.step():
    print("works")
"""


def test_core_brings_two_libraries_and_works_with_them(tmp_path: Path) -> None:
    """Printed by pytest -s: the list of what `pip install concur-agents` installs."""
    python = tmp_path / "bin" / "python"
    uv = [sys.executable, "-m", "uv", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, tmp_path], check=True)
    subprocess.run([*uv, "pip", "install", "--python", python, ROOT], check=True)
    listed = subprocess.run(
        [*uv, "pip", "list", "--python", python, "--format", "json"], check=True, capture_output=True, text=True
    )
    installed = json.loads(listed.stdout)
    print(*(f"{each['name']} {each['version']}" for each in installed), sep="\n")
    assert {each["name"] for each in installed} == {"concur-agents", "prometheus-client", "urllib3"}
    ran = subprocess.run([python, "-c", PROGRAM], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert ran.stdout.strip() == "works"
