"""Events in a file: all of them, whole lines, and nobody waits for the disk."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from concur_agents import Controller, EngineSample, EventStream, Outcome, ProblemEvent, Reason, WindowChange
from concur_agents.eventlog import EventLog
from concur_agents.testing import ScriptedReader

URL = "http://127.0.0.1:1"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(log: EventLog, *events: Any, size: int = 100) -> EventStream:
    """Have the log write the events to their end."""
    stream = EventStream(size, lambda _: None)
    for event in events:
        stream.publish(event)
    log.start(stream)
    stream.close()
    log.join(30)
    return stream


def problem(number: int) -> ProblemEvent:
    return ProblemEvent(at=number, problem=None)


def test_a_controllers_whole_life(tmp_path: Path) -> None:
    path = tmp_path / "new" / "events.jsonl"
    config = {"law": "fixed:1", "logging": {"events": str(path)}}
    with Controller.from_config(config, reader=ScriptedReader([EngineSample()]), background=False) as concur:
        with concur.sync.agent("a\ud800") as agent, agent.step():
            pass
        concur.tick()
    seen = lines(path)
    assert [(each["event"], each.get("kind")) for each in seen] == [
        ("agent", "admitted"),
        ("agent", "paused"),
        ("agent", "finished"),
    ]
    assert seen[-1]["outcome"] == Outcome.COMPLETED
    assert {each["agent_id"] for each in seen} == {"a\ud800"}
    assert {each["pid"] for each in seen} == {os.getpid()}


def test_a_controller_that_is_not_started_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    Controller.from_config({"engine": URL, "logging": {"events": path}}).close()
    assert not path.exists()


def test_windows_and_problems(tmp_path: Path) -> None:
    path = tmp_path / "e"
    sample = EngineSample(pinned_usage=0.5, rank_usages={"0": 0.5}, hit_rate=float("nan"))
    change = WindowChange(at=1.5, before=float("inf"), after=8, reason=Reason.CUT, sample=sample)
    written(EventLog(path), change, ProblemEvent(at=2, problem="x"))
    first, second = lines(path)
    assert (first["event"], first["before"], first["after"], first["reason"]) == ("window", "unlimited", 8, "cut")
    assert (first["sample"]["pinned_usage"], first["sample"]["hit_rate"]) == (0.5, None)
    assert first["sample"]["rank_usages"] == {"0": 0.5}
    assert (second["event"], second["problem"]) == ("problem", "x")


def test_it_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "e"
    path.write_text('{"event": "before"}\n')
    written(EventLog(path), problem(1))
    assert [each["event"] for each in lines(path)] == ["before", "problem"]


def test_what_was_dropped_is_told(tmp_path: Path) -> None:
    path = tmp_path / "e"
    written(EventLog(path), *map(problem, range(5)), size=2)
    assert [(each["event"], each.get("count"), each.get("at")) for each in lines(path)] == [
        ("dropped", 3, None),
        ("problem", None, 3),
        ("problem", None, 4),
    ]


def test_a_full_file_ends_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "e"
    with caplog.at_level(logging.WARNING):
        written(EventLog(path, limit=150), *map(problem, range(10)))
    assert path.stat().st_size <= 150
    assert lines(path)
    assert [record.message for record in caplog.records] == [
        f"events are no longer written: {path} has reached 150 bytes"
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
def test_a_full_disk_is_told_once_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    config = {"law": "fixed:1", "logging": {"events": "/dev/full"}}
    with Controller.from_config(config, reader=ScriptedReader(), background=False) as concur:
        for number in range(3):
            with concur.sync.agent(str(number)) as agent, agent.step():
                pass
    assert [record.message for record in caplog.records] == [
        "events cannot be written to /dev/full: [Errno 28] No space left on device (agents go on)"
    ]


def test_it_goes_on_when_the_disk_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that took half a line is followed by a line of its own."""
    write, calls = os.write, []

    def failing(file: int, data: bytes) -> int:
        calls.append(data)
        if len(calls) == 1:
            return write(file, data[:5])
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return write(file, data)

    path = tmp_path / "e"
    monkeypatch.setattr("concur_agents.eventlog.os.write", failing)
    written(EventLog(path), *map(problem, range(4)))
    half, *whole = path.read_text().splitlines()
    assert half == '{"eve'
    assert [json.loads(line)["at"] for line in whole] == [2, 3]


@pytest.mark.parametrize("path", ["/proc/nowhere/e", "a\0b"])
def test_a_file_that_cannot_be(path: str, caplog: pytest.LogCaptureFixture) -> None:
    written(EventLog(path), problem(1), problem(2))
    assert len(caplog.records) == 1
    assert "cannot be written to" in caplog.records[0].message


CRASH = """
import os, sys
from concur_agents import Controller
from concur_agents.testing import ScriptedReader
concur = Controller.from_config({"logging": {"events": sys.argv[1]}}, reader=ScriptedReader(), background=False).start()
log = concur._event_log
with concur.sync.agent("a") as agent, agent.step():
    pass
while not os.path.exists(sys.argv[1]) or open(sys.argv[1]).read().count(chr(10)) < 3:
    pass
os._exit(9)
"""


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "e"
    assert subprocess.run([sys.executable, "-c", CRASH, str(path)], check=False, timeout=60).returncode == 9
    assert [each["kind"] for each in lines(path)] == ["admitted", "paused", "finished"]
