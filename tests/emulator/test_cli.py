import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3
from typer.testing import CliRunner

from concur_agents.cli import main
from concur_agents.emulator import CostModel


@contextmanager
def emulating(*options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running `concur emulate` and its URL."""
    command = [sys.executable, "-m", "concur_agents.cli", "emulate", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_url_serves_and_stops_on_a_signal(number: signal.Signals) -> None:
    with emulating("--max-total-tokens", "5000", "--speedup", "100", "--model", "mine") as (process, url):
        info = urllib3.request("GET", url + "/server_info", timeout=30).json()
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (info["max_total_num_tokens"], info["served_model_name"], info["emulator"]["speedup"]) == (5000, "mine", 100)
    assert (process.returncode, out, err) == (0, "", "")


def test_it_stops_while_a_request_runs() -> None:
    with emulating() as (process, url):
        pool = urllib3.PoolManager(retries=False)
        body = json.dumps({"text": "hi", "stream": True, "sampling_params": {"max_new_tokens": 5000}}).encode()
        stream = pool.request("POST", url + "/generate", body=body, preload_content=False, timeout=30)
        assert stream.read(6) == b"data: "
        process.send_signal(signal.SIGTERM)
        rest = stream.read()
        pool.clear()
        assert process.wait(timeout=30) == 0
    assert b'"type":"abort"' in rest


def test_presets_can_be_listed() -> None:
    result = CliRunner().invoke(main, ["emulate", "--help-presets"])
    assert result.exit_code == 0
    assert "qwen3-32b-h100-tp8" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--preset", "nope"], "preset must be one of"),
        (["--speedup", "0"], "speedup must be positive"),
        (["--max-total-tokens", "1"], "max_total_tokens must be"),
        (["--cost-file", "/nowhere.json"], "nowhere.json"),
        (["--tokenizer", "/nowhere"], "/nowhere has no tokenizer.json"),
    ],
)
def test_a_bad_option_is_explained(options: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["emulate", "--port", "0", *options])
    assert result.exit_code == 2
    assert message in result.output or "jinja2" in result.output


def test_a_cost_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cost.json"
    CostModel(prefill_token_s=1e-9, decode_base_s=1e-9).save(path)
    with emulating("--cost-file", str(path)) as (_, url):
        body = {"text": "hi", "sampling_params": {"max_new_tokens": 5000, "ignore_eos": True}}
        reply = urllib3.request("POST", url + "/generate", json=body, timeout=30).json()
    assert reply["meta_info"]["e2e_latency"] < 1e-4


def test_without_typer_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; import concur_agents.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip() == "the concur command needs typer: pip install 'concur-agents[cli]'"
