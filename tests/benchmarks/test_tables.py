"""No figure in the README is typed by hand."""

from __future__ import annotations

import pytest

from benchmarks import tables


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda path: path.name)
def test_every_table_is_what_its_record_says(page) -> None:
    text = page.read_text()
    assert tables.filled(text) == text, "run: python -m benchmarks.tables"


def test_record_that_is_missing_is_said_to_be(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    page = "a\n<!-- results:fits -->\nold\n<!-- /results:fits -->\nb\n"
    assert "Not measured yet: `make bench-fits" in tables.filled(page)
    assert "old" not in tables.filled(page)
    assert tables.filled(page).endswith("b\n")
