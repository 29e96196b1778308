"""What was measured is kept, gone on with, and not mixed with anything else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.fleet.real.record import Record


def test_a_record_comes_back_from_its_file_as_it_was(make_record, make_run, tmp_path) -> None:
    record = make_record(make_run("front", 1, 200.0), make_run("gateway", 1, 100.0, others_cpu=0.01))
    record.save(tmp_path / "new" / "file.json")
    assert Record.load(tmp_path / "new" / "file.json") == record
    assert Record.load(tmp_path / "none.json") == Record()


def test_a_run_that_was_disturbed_is_to_be_run_again_and_then_gives_way(make_record, make_run) -> None:
    record = make_record(make_run("front", 1, 200.0), make_run("gateway", 1, 150.0, others_cpu=0.2))
    assert record.has("front", 1)
    assert not record.has("front", 2)
    assert not record.has("gateway", 1)
    record.add(make_run("gateway", 1, 100.0, others_cpu=None))
    assert [run.makespan_s for run in record.runs] == [200.0, 100.0]


@pytest.mark.parametrize("change", [{"workload": "judge"}, {"seed": 1}, {"engine": {"name": "other"}}, {"servers": 3}])
def test_what_was_measured_on_something_else_is_not_mixed_in(make_record, make_run, setting, change) -> None:
    record = make_record(make_run("front", 1, 200.0))
    with pytest.raises(ValueError, match="another workload, engine or seed"):
        record.begin(replace(setting, **change), {})


def test_other_agents_are_refused_and_more_repeats_are_not(make_record, make_run, setting, case) -> None:
    record = make_record(make_run("front", 1, 200.0))
    record.begin(replace(setting, machine={}), {1: case, 2: replace(case, repeat=2)})
    assert list(record.cases) == [1, 2]
    with pytest.raises(ValueError, match="repeat 1 with other agents"):
        record.begin(setting, {1: replace(case, agents=95)})


@pytest.mark.parametrize("text", ["[]", '{"runs": [{"arm": "front"}]}', '{"setting": 3}'])
def test_a_file_of_something_else_is_refused(text) -> None:
    with pytest.raises(ValueError, match="no record of this benchmark"):
        Record.of(json.loads(text))
