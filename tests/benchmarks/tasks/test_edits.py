import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.swebench.edits import Edit, EditError, apply_edits, edit_command, edits_between, hunks_of

LINE = st.sampled_from(["a\n", "b\n", "c\n", "\n", "x = 1\r\n", "é\n"])
TEXTS = st.lists(LINE, max_size=30).map("".join)
DISTINCT = st.lists(st.integers(0, 50), min_size=1, max_size=30, unique=True)


@given(TEXTS, TEXTS)
def test_edits_are_right_or_refused(before: str, after: str) -> None:
    try:
        edits = edits_between("f", before, after)
    except EditError:
        return
    assert apply_edits({"f": before}, edits) == {"f": after}


@given(DISTINCT, DISTINCT)
def test_texts_of_distinct_lines_always_have_edits(before: list[int], after: list[int]) -> None:
    old, new = ("".join(f"line {number}\n" for number in numbers) for numbers in (before, after))
    assert apply_edits({"f": old}, edits_between("f", old, new)) == {"f": new}


def test_equal_texts_need_no_edit() -> None:
    assert edits_between("f", "a\n", "a\n") == ()


def test_a_hunk_gets_as_much_context_as_makes_it_occur_once() -> None:
    before = "def f():\n    return 1\n\n\ndef g():\n    return 1\n"
    (edit,) = edits_between("f.py", before, before.replace("g():\n    return 1", "g():\n    return 2"))
    assert edit.old == "def g():\n    return 1\n"


def test_a_new_file_is_one_edit() -> None:
    edits = edits_between("new.py", None, "x = 1\n")
    assert apply_edits({}, edits) == {"new.py": "x = 1\n"}


@pytest.mark.parametrize(("old", "count"), [("a", 2), ("z", 0)])
def test_an_edit_that_does_not_fit_once_is_refused(old: str, count: int) -> None:
    with pytest.raises(EditError, match=f"f: the text to replace occurs {count} times"):
        apply_edits({"f": "a a"}, [Edit(path="f", old=old, new="b")])


def test_a_file_that_is_there_is_not_made_anew() -> None:
    with pytest.raises(EditError, match="is there already"):
        apply_edits({"f": "a"}, [Edit(path="f", old="", new="b")])


# As a tool


def run(folder, path, old, new):
    command = edit_command(path, old, new)
    path = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=path, capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout + done.stderr).strip()


NASTY = ['it\'s "quoted" $HOME `id`', "back\\slash\\n", "END_OF_EDIT", "tab\tand\nlines\n", "\u00e9\u4e2d", ""]


@pytest.mark.parametrize("new", NASTY)
def test_an_edit_writes_exactly_what_was_given(tmp_path, new):
    (tmp_path / "a.py").write_bytes(b"one\r\ntwo\n")
    assert run(tmp_path, "a.py", "two", new) == (0, "edited a.py")
    assert (tmp_path / "a.py").read_bytes() == b"one\r\n" + new.encode() + b"\n"


def test_an_empty_text_to_replace_makes_a_file_and_its_folders(tmp_path):
    assert run(tmp_path, "x/y.py", "", "new\n") == (0, "edited x/y.py")
    assert (tmp_path / "x" / "y.py").read_text() == "new\n"
    assert run(tmp_path, "x/y.py", "", "again") == (1, "x/y.py is there already")


@pytest.mark.parametrize(
    ("old", "said"), [("three", "the text occurs 0 times, not once"), ("o", "the text occurs 2 times, not once")]
)
def test_an_edit_that_does_not_fit_says_why_and_changes_nothing(tmp_path, old, said):
    (tmp_path / "a.py").write_text("one\ntwo\n")
    assert run(tmp_path, "a.py", old, "x") == (1, said)
    assert (tmp_path / "a.py").read_text() == "one\ntwo\n"
    assert run(tmp_path, "b.py", old, "x") == (1, "there is no file b.py")


def test_hunks_of_a_diff_are_found_with_the_file_they_are_in() -> None:
    patch = """\
diff --git a/x.py b/x.py
--- a/x.py
+++ b/x.py
@@ -7,2 +7,2 @@ def f():
--- not a header
-a
+b
@@ -90 +90 @@
-a
+b
diff --git a/new.py b/new.py
new file mode 100644
--- /dev/null
+++ b/new.py
@@ -0,0 +1 @@
+b
diff --git a/old.py b/old.py
--- a/old.py
+++ /dev/null
@@ -1 +0,0 @@
-b
"""
    assert list(hunks_of(patch)) == [("x.py", 7), ("x.py", 90), ("new.py", 0), ("old.py", 1)]
    assert list(hunks_of("Binary files differ")) == []
