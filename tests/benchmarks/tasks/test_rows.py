"""Rows of SWE-bench's form are read from whatever holds them; what is wrong is said by file, row and field."""

import json
import sys
import types

import pytest

from benchmarks.swebench.rows import HUB, Instance, RowError, image_of, read_rows

ROW = {
    "instance_id": "django__django-10973",
    "repo": "django/django",
    "base_commit": "ddb2936",
    "problem_statement": "Use subprocess.run in the client.",
    "patch": "diff --git a/x b/x",
    "test_patch": "diff --git a/t b/t",
    "version": "3.0",
    "FAIL_TO_PASS": '["test_accent (dbshell)"]',
    "PASS_TO_PASS": [],
    "hints_text": "",
}
GYM = {**ROW, "instance_id": "getmoto__moto-7365", "subset": "gym", "FAIL_TO_PASS": ["a", "b"]}


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_a_row_is_read_with_tests_as_list_or_as_json(write):
    source = write("rows.jsonl", json.dumps(ROW) + "\n\n" + json.dumps(GYM) + "\n")
    django, moto = read_rows(source)
    assert isinstance(django, Instance)
    assert (django.fail_to_pass, django.pass_to_pass) == (("test_accent (dbshell)",), ())
    assert moto.fail_to_pass == ("a", "b")
    assert (django.repo, django.base_commit, django.version) == ("django/django", "ddb2936", "3.0")


@pytest.mark.parametrize("nothing", ["", None])
def test_a_row_of_smith_may_have_no_problem(write, nothing):
    source = write("rows.jsonl", json.dumps({**ROW, "image_name": "swebench/swesmith.x", "problem_statement": nothing}))
    assert [row.problem_statement for row in read_rows(source)] == [""]


def test_a_list_of_rows_is_a_file_too(write):
    assert len(read_rows(write("rows.json", json.dumps([ROW, GYM])))) == 2


@pytest.mark.parametrize(
    ("row", "image"),
    [
        (ROW, "docker.io/swebench/sweb.eval.x86_64.django_1776_django-10973:latest"),
        (GYM, "docker.io/xingyaoww/sweb.eval.x86_64.getmoto_s_moto-7365:latest"),
        (
            {**ROW, "dataset_name": "SWE-Gym/SWE-Gym"},
            "docker.io/xingyaoww/sweb.eval.x86_64.django_s_django-10973:latest",
        ),
        ({**ROW, "image_name": "swebench/swesmith.x86_64.x"}, "docker.io/swebench/swesmith.x86_64.x"),
        ({**ROW, "image": "swebench/a:1"}, "docker.io/swebench/a:1"),
        ({**ROW, "image": "alpine"}, "docker.io/library/alpine"),
        ({**ROW, "image": "registry.example:5000/a"}, "registry.example:5000/a"),
        ({**ROW, "image": "ghcr.io/a/b:1"}, "ghcr.io/a/b:1"),
        ({**ROW, "docker_image": "localhost/a:1"}, "localhost/a:1"),
        ({**ROW, "image": "/images/x.sif"}, "docker.io/swebench/sweb.eval.x86_64.django_1776_django-10973:latest"),
    ],
)
def test_each_data_sets_images_are_found(row, image):
    assert image_of(row) == image


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("rows.jsonl", "", "has no rows"),
        ("rows.jsonl", "{", r"rows.jsonl, line 1: no JSON"),
        ("rows.jsonl", "[1]", "row 1: an object was expected, not list"),
        ("rows.json", "{}", "a list of rows was expected, not dict"),
        ("rows.jsonl", '{"question": "?"}', r"row 1: instance_id: .*required \(columns: question\)"),
        ("rows.jsonl", json.dumps({**ROW, "problem_statement": ""}), "row 1: problem_statement"),
        ("rows.jsonl", json.dumps({**ROW, "FAIL_TO_PASS": "not JSON"}), "row 1: FAIL_TO_PASS"),
        ("rows.jsonl", json.dumps({**ROW, "FAIL_TO_PASS": 3}), "row 1: FAIL_TO_PASS"),
        ("rows.jsonl", f"{json.dumps(ROW)}\n{json.dumps(ROW)}", "row 2: django__django-10973 comes twice"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(write, name, text, complaint):
    with pytest.raises(RowError, match=complaint):
        read_rows(write(name, text))


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path):
    with pytest.raises(RowError, match=r"cannot read .*none\.jsonl"):
        read_rows(str(tmp_path / "none.jsonl"))
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(RowError, match=r"cannot read .*binary\.jsonl"):
        read_rows(str(tmp_path / "binary.jsonl"))


def test_what_is_neither_is_told_what_there_is():
    with pytest.raises(RowError, match=r"'tasks' is neither .* one of lite, verified, full, gym, smith"):
        read_rows("tasks")


@pytest.mark.parametrize("name", ["rows.csv", "folder"])
def test_a_file_of_another_kind_is_not_looked_for_on_the_hub(tmp_path, name):
    (tmp_path / name).mkdir()
    for source in (str(tmp_path / name), f"./{name}", str(tmp_path / "absent" / name)):
        with pytest.raises(RowError, match=r"neither a \.jsonl, \.json, \.parquet file nor a data set"):
            read_rows(source)


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("verified", HUB["verified"]),
        ("gym", HUB["gym"]),
        ("me/mine", ("me/mine", "test")),
        ("me/mine:dev", ("me/mine", "dev")),
    ],
)
def test_a_data_set_on_the_hub_is_loaded_by_name_and_split(monkeypatch, source, asked):
    seen = []

    def load_dataset(name, *, split):
        seen.append((name, split))
        return [ROW]

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    (row,) = read_rows(source)
    assert (seen, row.instance_id) == ([asked], ROW["instance_id"])


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch):
    def load_dataset(name, *, split):
        raise ConnectionError("offline")

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    with pytest.raises(RowError, match=r"cannot load .*Lite \(test\) from the hub: ConnectionError: offline"):
        read_rows("lite")


@pytest.mark.parametrize(("module", "source"), [("datasets", "lite"), ("pyarrow", "rows.parquet")])
def test_a_package_that_is_missing_is_named(monkeypatch, tmp_path, module, source):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, f"{module}.parquet", None)
    (tmp_path / "rows.parquet").write_bytes(b"")
    with pytest.raises(RowError, match=f"needs {module}: pip install {module}"):
        read_rows(str(tmp_path / source) if source.endswith("parquet") else source)
