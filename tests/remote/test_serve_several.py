"""``concur serve`` with several engines, as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from concur_agents.cli import main

A, B = "http://127.0.0.1:9", "http://127.0.0.1:10"


@contextmanager
def running(*options: str) -> Iterator[Any]:
    command = [sys.executable, "-m", "concur_agents.cli", "serve", "--port", "0", *options]
    env = {name: value for name, value in os.environ.items() if not name.startswith("CONCUR_")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip() + "/concur/v1"
        finally:
            process.kill()


@pytest.mark.parametrize("by_file", [False, True])
def test_a_grant_names_one_of_the_engines_and_the_process_ends_well(tmp_path: Path, *, by_file: bool) -> None:
    file = tmp_path / "concur.yaml"
    file.write_text(f"law: fixed:3\nengines: [{{url: {A}}}, {{url: {B}}}]\n")
    options = ["--config", str(file)] if by_file else ["--engine", A, "--engine", B + "/v1", "--law", "fixed:3"]
    with running(*options) as (process, url):
        grants = [httpx.post(f"{url}/agents/{name}/admit").json() for name in "xy"]
        assert sorted(grant["engine"] for grant in grants) == sorted([A, B])
        assert httpx.get(f"{url}/stats").json()["window"] == 6
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, "Traceback" in err) == (0, "", False)


def test_an_engine_that_is_named_twice_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CONCUR_")]:
        monkeypatch.delenv(name)
    result = CliRunner().invoke(main, ["serve", "--port", "0", "--engine", A, "--engine", A + "/v1"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"concur serve: --engine must not hold an engine twice, got {A}\n"
