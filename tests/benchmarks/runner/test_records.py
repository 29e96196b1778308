"""What is written comes back as it was, and nothing else is taken for it."""

import json

import pytest

from benchmarks.swebench.records import RecordError, RunFolder, write_json


@pytest.fixture
def arm(tmp_path):
    folder = RunFolder.create(tmp_path / "run", {"config": {}}).arm("fixed:8", 2)
    folder.create()
    return folder


def test_a_record_survives_the_disk(arm, make_record, make_step):
    record = make_record(error="ValueError: no", steps=(make_step(cached=None, wait_s=None), make_step()))
    arm.write_agent(record)
    assert arm.agents() == (record,)


def test_writing_again_replaces(arm, make_record):
    arm.write_agent(make_record())
    arm.write_agent(make_record(resolved=True))
    assert [record.resolved for record in arm.agents()] == [True]


def test_a_half_written_file_is_not_taken_for_a_record(arm, make_record):
    arm.write_agent(make_record())
    (arm.path / "agents" / ".002-a.json.part").write_text('{"agent_id": "00')
    assert len(arm.agents()) == 1


@pytest.mark.parametrize(
    "content", ["", "[]", "null", "{}", '{"agent_id": "x"}', '{"steps": [3]}', '{"steps": null}', "\xff", '{"a": NaN}']
)
def test_a_file_that_is_no_record_is_named(arm, content):
    (arm.path / "agents" / "007-x.json").write_text(content, encoding="latin-1")
    with pytest.raises(RecordError, match=r"007-x\.json"):
        arm.agents()


def test_a_record_with_a_field_of_another_version_is_refused(arm, make_record):
    arm.write_agent(make_record())
    path = arm.path / "agents" / "001-a.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "mood": "good"}))
    with pytest.raises(RecordError, match="mood"):
        arm.agents()


def test_a_figure_of_the_wrong_type_is_refused(arm, make_record):
    arm.write_agent(make_record())
    path = arm.path / "agents" / "001-a.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "ended_s": "soon"}))
    with pytest.raises(RecordError, match="ended_s"):
        arm.agents()


def test_the_torn_last_line_of_a_killed_run_is_left_out(make_run, make_point):
    points = [make_point(0.0), make_point(1.0, pinned_usage=0.5)]
    arm = make_run({("concur", 1): ([], points, None)}).arm("concur", 1)
    with arm.open_timeline() as stream:
        stream.write('{"at_s": 2.0, "win')
    assert list(arm.timeline()) == points


def test_a_broken_line_in_the_middle_is_named(make_run, make_point):
    arm = make_run({("concur", 1): ([], [], None)}).arm("concur", 1)
    with arm.open_timeline() as stream:
        stream.write("oops\n{}\n")
    with pytest.raises(RecordError, match=r"timeline\.jsonl:1"):
        arm.timeline()


def test_an_arm_without_timeline_or_closing_is_an_arm_that_did_not_get_there(arm):
    assert arm.timeline() == ()
    assert arm.closing() is None


def test_each_arm_and_repeat_has_a_folder_of_its_own(tmp_path):
    folder = RunFolder(tmp_path)
    names = ["fixed:8", "fixed:80", "concur", "concur:alpha=4,beta=0.3", "concur:alpha=4,beta=0.31"]
    paths = {folder.arm(name, repeat).path for name in names for repeat in (1, 2)}
    assert len(paths) == 2 * len(names)


def test_a_run_never_writes_into_another(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RecordError, match="not empty"):
        RunFolder.create(tmp_path, {})


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(RecordError, match=r"no run\.json"):
        RunFolder.open(tmp_path)


def test_infinity_is_no_json(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "x.json", {"window": float("inf")})
    assert not (tmp_path / "x.json").exists()


def test_recomputed_is_what_was_in_context_and_not_cached(make_record, make_step):
    steps = (make_step(100, 0, 10), make_step(150, 110, 10), make_step(200, 20, 10))
    assert make_record(steps=steps).recomputed_tokens == 140  # the third step had 160 in context and found 20


def test_the_first_prompt_is_no_recomputation(make_record, make_step):
    assert make_record(steps=(make_step(100, 0, 10),)).recomputed_tokens == 0


def test_a_failed_step_between_two_does_not_hide_what_was_in_context(make_record, make_step):
    steps = (make_step(100, 0, 10), make_step(None, None, None), make_step(120, 0, 10))
    assert make_record(steps=steps).recomputed_tokens == 110


def test_recomputed_is_unknown_when_no_reply_says_what_was_cached(make_record, make_step):
    assert make_record(steps=(make_step(100, None, 10),)).recomputed_tokens is None


def test_records_are_plain_json(arm, make_record):
    arm.write_agent(make_record())
    assert json.loads((arm.path / "agents" / "001-a.json").read_text())["outcome"] == "completed"
