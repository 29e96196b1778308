"""Writes the table of frameworks and guarantees into a page, from what the contract's tests recorded.

python tests/contract/table.py RECORD PAGE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- contract -->", "<!-- /contract -->"
MARKS = {"held": "✓", "not covered": "n/a", "failed": "**✗**"}


def table(lines: list[dict[str, Any]]) -> str:
    """Guarantees down, adapters across; versions below; reasons for what is not covered as footnotes."""
    adapters: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for line in lines:
        versions = ", ".join(f"{name} {number}" for name, number in line["versions"].items())
        adapters.setdefault((line["adapter"], versions), {})[line["guarantee"]] = line
    columns = sorted(adapters)
    guarantees = list(dict.fromkeys(line["guarantee"] for line in lines))
    notes: dict[str, int] = {}
    rows = [
        "| | " + " | ".join(f"{number}" for number, _ in enumerate(columns, 1)) + " |",
        "|---|" + ":-:|" * len(columns),
    ]
    for guarantee in guarantees:
        cells = [_cell(adapters[column].get(guarantee), notes) for column in columns]
        rows.append(f"| {guarantee} | " + " | ".join(cells) + " |")
    legend = [f"{number}. {title}: {versions or 'no framework'}" for number, (title, versions) in enumerate(columns, 1)]
    reasons = [f"<sup>{number}</sup> {reason}" for reason, number in notes.items()]
    return "\n".join([*legend, "", *rows, "", "<br>\n".join(reasons)]).rstrip()


def _cell(line: dict[str, Any] | None, notes: dict[str, int]) -> str:
    if line is None:
        return ""
    if not line["reason"]:
        return MARKS[line["result"]]
    number = notes.setdefault(line["reason"], len(notes) + 1)
    return f"{MARKS[line['result']]}<sup>{number}</sup>"


def main(record: str, page: str) -> None:
    """Put the table between the page's marks."""
    lines = [json.loads(line) for line in Path(record).read_text().splitlines()]
    text = Path(page).read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    Path(page).write_text(f"{before}{BEGIN}\n{table(lines)}\n{END}{after}")
    failed = [f"{line['adapter']}: {line['guarantee']}" for line in lines if line["result"] == "failed"]
    if failed:
        sys.exit("failed:\n" + "\n".join(failed))


if __name__ == "__main__":
    main(*sys.argv[1:])
