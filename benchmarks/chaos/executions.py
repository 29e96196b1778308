"""What the engine executed, as its middleware noted it, and whether any step was executed twice at once."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Execution", "overlaps", "read_executions"]


@dataclass(slots=True, kw_only=True)
class Execution:
    """One request for a step, at the engine."""

    agent: str
    step: int
    attempt: int
    begin_s: float
    end_s: float | None = None
    """None while it runs."""
    cut: bool = False
    """Whether it ended before its whole reply was sent: the gateway hung up, the engine died, or a fault."""

    def __str__(self) -> str:
        end = "runs" if self.end_s is None else f"{'cut' if self.cut else 'answered'} {self.end_s:.3f}"
        return f"attempt {self.attempt} (begun {self.begin_s:.3f}, {end})"


def read_executions(path: Path, ended_s: float | None = None) -> list[Execution]:
    """The executions in one engine process's notes.

    Args:
        path: of the notes; an engine that never served has none.
        ended_s: when the process ended; whatever ran then ended with it. None: it still runs.
    """
    found: dict[int, Execution] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            note = json.loads(line)
        except ValueError:
            continue  # the process was killed while it wrote its last one
        if note["what"] == "begin":
            found[note["id"]] = Execution(
                agent=note["agent"], step=note["step"], attempt=note["attempt"], begin_s=note["at_s"]
            )
        else:
            found[note["id"]].end_s, found[note["id"]].cut = note["at_s"], note["cut"]
    for execution in found.values():
        if execution.end_s is None and ended_s is not None:
            execution.end_s, execution.cut = max(ended_s, execution.begin_s), True
    return list(found.values())


def overlaps(executions: Iterable[Execution], grace_s: float) -> list[tuple[Execution, Execution]]:
    """Two executions of one step at one time, where the earlier one was not cut soon after the later one began.

    The first such pair of each step.

    Args:
        executions: of any steps, in any order.
        grace_s: seconds that it may take to cut the earlier one: its client has given up, and has sent again already.
    """
    steps: dict[tuple[str, int], list[Execution]] = defaultdict(list)
    for execution in executions:
        steps[execution.agent, execution.step].append(execution)
    found = (next(_overlapping(same, grace_s), None) for same in steps.values())
    return [pair for pair in found if pair is not None]


def _overlapping(same: Sequence[Execution], grace_s: float) -> Iterator[tuple[Execution, Execution]]:
    ordered = sorted(same, key=lambda execution: execution.begin_s)
    for number, later in enumerate(ordered):
        for earlier in ordered[:number]:
            if earlier.end_s is not None and earlier.end_s <= later.begin_s:
                continue
            if earlier.end_s is None or not earlier.cut or earlier.end_s - later.begin_s > grace_s:
                yield earlier, later
