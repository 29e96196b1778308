"""The JSON file of a benchmark."""

import dataclasses
import json
import os
import platform
import socket
from pathlib import Path

import pytest

from benchmarks.machine import Usage, describe
from benchmarks.real.record import BatchRecord, Record, WindowRecord


def test_a_record_reads_back_as_it_was(tmp_path, make_record, make_run):
    record = make_record(make_run("uncontrolled", 1, 160.0), predicted=(make_run("concur", 1, 90.0),))
    record.save(tmp_path / "new" / "record.json")
    assert Record.load(tmp_path / "new" / "record.json") == record


def test_the_window_without_limit_is_null_and_no_infinity(tmp_path, make_record, make_run):
    run = make_run("uncontrolled", 1, 160.0)
    window = (WindowRecord(at_s=0.0, window=None, reason="start"),)
    record = make_record(dataclasses.replace(run, batch=dataclasses.replace(run.batch, window=window)))
    record.save(tmp_path / "record.json")
    data = json.loads((tmp_path / "record.json").read_text(), parse_constant=pytest.fail)
    assert data["runs"][0]["batch"]["window"][0]["window"] is None


def test_numbers_keep_six_digits(tmp_path, make_record, make_run):
    make_record(make_run("concur", 1, 123.456789)).save(tmp_path / "record.json")
    assert Record.load(tmp_path / "record.json").runs[0].batch.makespan_s == 123.457


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("", "EOF"), ("[]", "the file"), ('{"started": 1}', "started"), ('{"surprise": 1}', "is no record")],
)
def test_another_file_is_refused_with_its_name_and_what_is_wrong(tmp_path, content, complaint):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=complaint) as refused:
        Record.load(path)
    assert "other.json" in str(refused.value)


def test_an_older_record_stays_until_the_new_one_is_whole(tmp_path, make_record, make_run, monkeypatch):
    path = tmp_path / "record.json"
    make_record().save(path)
    before = path.read_text()

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_record(make_run("concur", 1, 1.0)).save(path)
    monkeypatch.undo()
    assert path.read_text() == before


def test_unknown_tokens_stay_unknown(make_run):
    batch = make_run("concur", 1, 10.0).batch
    blind = tuple(dataclasses.replace(agent, cached_tokens=None, recomputed_tokens=None) for agent in batch.agents)
    assert dataclasses.replace(batch, agents=blind).hit_rate is None
    assert dataclasses.replace(batch, agents=blind).recomputed_tokens is None
    # An agent that never got an answer says nothing of the others' hits.
    half = BatchRecord(makespan_s=1.0, agents=(batch.agents[0], blind[1]))
    assert half.hit_rate == 0.4
    assert half.recomputed_tokens == 100


def test_a_record_is_complete_when_every_arm_ran_as_often_as_it_should(make_record, make_run):
    runs = [make_run(arm, 1, 1.0) for arm in ("uncontrolled", "concur")]
    assert make_record(*runs, repeats=1).complete
    assert not make_record(*runs, repeats=2).complete


def test_the_description_of_the_machine_does_not_name_it():
    text = json.dumps(describe())
    for name in (socket.gethostname(), platform.node(), str(Path.cwd()), str(Path.home())):
        assert name not in text


def test_others_cpu_is_a_share_or_unknown(monkeypatch):
    assert 0.0 <= Usage(None).others() <= 1.0
    assert 0.0 <= Usage(os.getsid(0)).others() <= 1.0
    monkeypatch.setattr("benchmarks.machine._busy_s", lambda: None)
    assert Usage(None).others() is None
