"""How the real server is started, with another server in its place; and the shims in a real interpreter."""

import asyncio
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.engines.sglang_cpu.model import write_model
from benchmarks.engines.sglang_cpu.server import FLAGS, SHIMS, sglang_cpu
from benchmarks.engines.warden import members
from benchmarks.engines.wire import EngineError, fetch

# Takes sglang's arguments, tells them and its environment on the log, and serves the emulator.
STAND_IN = """#!{python}
import json, os, sys
arguments = sys.argv[1:]
kept = ("PYTHONPATH", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PYTHONSTARTUP", "SGLANG_OTHER", "HOME")
environment = {{name: os.environ.get(name) for name in kept}}
print(json.dumps({{"arguments": arguments, "environment": environment}}), flush=True)
os.environ["PYTHONPATH"] = {root!r}
port = arguments[arguments.index("--port") + 1]
os.execv({python!r}, [{python!r}, "-m", "concur_agents.cli", "emulate", "--preset", "cpu-sglang", "--port", port])
"""


@pytest.fixture
def stand_in(tmp_path):
    python = tmp_path / "python"
    python.write_text(STAND_IN.format(python=sys.executable, root=str(Path.cwd())))
    python.chmod(stat.S_IRWXU)
    return python


@pytest.fixture
def model(tmp_path):
    write_model(tmp_path / "model")
    return tmp_path / "model"


def told(log):
    return json.loads(log.read_text().splitlines()[0])


async def test_the_server_is_started_described_and_ended(stand_in, model, tmp_path):
    async with sglang_cpu(stand_in, model, tmp_path / "log") as engine:
        assert engine.name == "SGLang 0.5.23"
        assert engine.scheduling["max_total_tokens"] == 16_000
        assert (await asyncio.to_thread(fetch, "GET", f"{engine.url}/server_info"))["version"] == "0.5.23"
        assert engine.session in members(engine.session)
        engine.check()
    assert members(engine.session) == []
    with pytest.raises(EngineError, match="ended with exit code"):
        engine.check()


async def test_what_is_kept_of_the_engine_names_no_path_and_no_address(stand_in, model, tmp_path):
    async with sglang_cpu(stand_in, model, tmp_path / "log") as engine:
        text = json.dumps({**engine.about, "name": engine.name, "scheduling": dict(engine.scheduling)})
    assert "/" not in text
    assert "127.0.0.1" not in text


async def test_flags_and_model_arrive_and_only_the_environment_it_needs(stand_in, model, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONSTARTUP", "/somewhere/startup.py")
    monkeypatch.setenv("SGLANG_OTHER", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    async with sglang_cpu(stand_in, model, tmp_path / "log"):
        pass
    arguments, environment = told(tmp_path / "log").values()
    assert arguments[:2] == ["-m", "sglang.launch_server"]
    assert arguments[arguments.index("--model-path") + 1] == str(model)
    for flag, value in FLAGS.items():
        assert flag in arguments
        assert value is None or arguments[arguments.index(flag) + 1] == value
    assert environment["PYTHONPATH"] == str(SHIMS)
    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["PYTHONSTARTUP"] is environment["SGLANG_OTHER"] is None
    assert environment["HOME"] == os.environ.get("HOME")


async def test_an_interpreter_without_sglang_is_told_with_pythons_own_words(model, tmp_path):
    with pytest.raises(EngineError, match=r"(?s)exit code 1.*No module named 'sglang|No module named sglang"):
        async with sglang_cpu(Path(sys.executable), model, tmp_path / "log"):
            pytest.fail("it cannot have started")


def python(code, **variables):
    environment = {**os.environ, "PYTHONPATH": str(SHIMS), **variables}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_missing_packages_import_at_any_depth_and_lend_their_names():
    done = python(
        "import sgl_kernel, torchvision.transforms.v2 as v2\n"
        "from torchaudio.functional import resample\n"
        "class Mine(v2.Transform): pass\n"
        "def f(x: int | v2.Image | None) -> None: ...\n"
        "assert v2.Image is v2.Image and v2.Image.nearest\n"
    )
    assert done.returncode == 0, done.stderr


def test_calling_what_is_missing_names_it():
    done = python("import sgl_kernel; sgl_kernel.rmsnorm(1, eps=2)")
    assert "sgl_kernel.rmsnorm is not available on this CPU" in done.stderr


def test_other_missing_modules_are_still_missing():
    assert "No module named 'sgl_other'" in python("import sgl_other").stderr


def test_a_package_that_is_installed_is_used(tmp_path):
    (tmp_path / "torchaudio.py").write_text("real = True")
    done = python("import torchaudio; assert torchaudio.real is True", PYTHONPATH=f"{SHIMS}:{tmp_path}")
    assert done.returncode == 0, done.stderr


def test_transformers_is_told_that_torchvision_is_missing(tmp_path):
    probe = tmp_path / "transformers" / "utils" / "import_utils.py"
    probe.parent.mkdir(parents=True)
    probe.write_text("import importlib.util\nfound = importlib.util.find_spec('torchvision')\n")
    done = python(f"import runpy; assert runpy.run_path({str(probe)!r})['found'] is None")
    assert done.returncode == 0, done.stderr
