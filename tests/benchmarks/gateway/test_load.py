"""What wrk is told to send, and what is read of what it prints."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.gateway.load import LoadError, parse, press, script
from benchmarks.gateway.workload import AGENTS, TURNS, body

PRINTED = """\
Running 5s test @ http://127.0.0.1:8300
  1 threads and 64 connections
Requests/sec:   1513.61

measured: {"requests": 7600, "duration_us": 5000000, "p50_us": 41250, "p99_us": 70001, "failed": 3}
"""


def test_what_wrk_measured_is_read():
    seen = parse(PRINTED)
    assert seen.to_json() == {"requests": 7600, "per_s": 1520.0, "p50_ms": 41.25, "p99_ms": 70.001, "failed": 3}


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        ("unable to connect to 127.0.0.1:1 Connection refused\n", "Connection refused"),
        ("", "measured nothing"),
        ('measured: {"requests": 0, "duration_us": 5000000, "p50_us": 0, "p99_us": 0, "failed": 64}\n', "no reply"),
    ],
)
def test_a_load_that_measured_nothing_is_no_measurement(printed, message):
    with pytest.raises(LoadError, match=message):
        parse(printed)


def test_agents_are_named_only_where_they_are_to_be():
    assert "X-Session-ID" in script("a", names_agents=True)
    assert "X-Session-ID" not in script("a", names_agents=False)


def test_nothing_in_a_request_ends_its_text_in_the_script():
    assert "]==]" not in body("a", TURNS - 1).decode()


@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
@pytest.mark.parametrize("named", [True, False])
async def test_wrk_plays_the_agents_in_turns(stub, tmp_path, named):
    seen = await press(stub.url, batch="b", names_agents=named, connections=1, seconds=1, folder=tmp_path)
    assert seen.failed == 0
    assert len(stub.bodies) > 1
    first = next(number for number in (0, 1) if stub.bodies[0] == body(f"b-{number}", 0))  # wrk asks once for itself
    for number, (head, sent) in enumerate(zip(stub.heads, stub.bodies, strict=True), start=first):
        round_ = number // AGENTS
        name = f"b-{round_ // TURNS * AGENTS + number % AGENTS}"
        assert sent == body(name, round_ % TURNS)
        assert (f"X-Session-ID: {name}".encode() in head) == named
