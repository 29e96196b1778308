"""A fix as text replacements, computed from the file before and the file after."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

__all__ = ["Edit", "EditError", "apply_edits", "edit_command", "edits_between", "hunks_of", "whole_lines"]

MAX_CONTEXT_LINES = 40
HUNK = re.compile(r"@@ -(\d+)")


class EditError(Exception):
    """Two versions that cannot be told apart by replacements, or a text that the edit does not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """In ``path``, replace ``old``, which occurs exactly once, by ``new``. An empty ``old`` makes the file."""

    path: str
    """Relative to the workspace."""
    old: str
    new: str


def edits_between(path: str, before: str | None, after: str) -> tuple[Edit, ...]:
    """The edits that turn ``before`` (None: no such file) into ``after`` when applied in order.

    Each hunk has just enough lines around it to occur once, so that it reads like what a person would replace.

    Raises:
        EditError: no amount of context makes them unambiguous.
    """
    if before is None:
        return (Edit(path=path, old="", new=after),)
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for context in range(1, MAX_CONTEXT_LINES):
        edits = tuple(
            Edit(path=path, old="".join(old[group[0][1] : group[-1][2]]), new="".join(new[group[0][3] : group[-1][4]]))
            for group in matcher.get_grouped_opcodes(context)
        )
        try:
            if apply_edits({path: before}, edits)[path] == after:
                return edits
        except EditError:
            continue
    raise EditError(f"{path}: no unambiguous edits with up to {MAX_CONTEXT_LINES} lines of context")


def hunks_of(patch: str) -> Iterator[tuple[str, int]]:
    """Path and first line (before the change, 0 in a new file) of each hunk of a unified diff as git writes it."""
    path = ""
    for line in patch.splitlines():
        if line.startswith(("--- a/", "+++ b/")):  # the other one of a file that is made or removed is /dev/null
            path = line[len("--- a/") :]
        elif path and (hunk := HUNK.match(line)):
            yield path, int(hunk[1])


def whole_lines(patch: str) -> str:
    """A diff whose last line has an end. No more is trimmed: its last line may be an empty one of its context."""
    return patch if patch.endswith("\n") else f"{patch}\n"


def edit_command(path: str, old: str, new: str) -> str:
    """A command that makes an edit, and fails loudly where the file is not as expected."""
    return (
        "python - <<'END_OF_EDIT'\nimport sys\nfrom pathlib import Path\n"
        f"path, old, new = Path({path!r}), {old!r}, {new!r}\n"
        "if old:\n"
        "    text = path.read_bytes().decode() if path.is_file() else sys.exit(f'there is no file {path}')\n"
        "    count = text.count(old)\n"
        "    text = text.replace(old, new) if count == 1 else sys.exit(f'the text occurs {count} times, not once')\n"
        "else:\n"
        "    text = new if not path.exists() else sys.exit(f'{path} is there already')\n"
        "    path.parent.mkdir(parents=True, exist_ok=True)\n"
        "path.write_bytes(text.encode())\n"
        "print('edited', path)\nEND_OF_EDIT"
    )


def apply_edits(files: Mapping[str, str], edits: Iterable[Edit]) -> dict[str, str]:
    """The files after the edits, applied in order.

    Raises:
        EditError: an ``old`` does not occur exactly once, or a file to be made is there.
    """
    result = dict(files)
    for edit in edits:
        if not edit.old:
            if edit.path in result:
                raise EditError(f"{edit.path} is there already")
            result[edit.path] = edit.new
            continue
        count = result.get(edit.path, "").count(edit.old)
        if count != 1:
            raise EditError(f"{edit.path}: the text to replace occurs {count} times, not once")
        result[edit.path] = result[edit.path].replace(edit.old, edit.new)
    return result
