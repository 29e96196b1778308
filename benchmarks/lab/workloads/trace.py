"""A workload from a user's own recording: ``--trace FILE``.

Three kinds of recording are read, each also gzipped, or a folder of them:

- JSON lines, a session each: ``{"steps": [{"p": 2036, "o": 77, "tool_s": 0.3}, ...], "prefix": 320}``;
- JSON lines with a session's ``messages``;
- mini-swe-agent's trajectories, ``*.traj.json`` (format 1.1, as its version 2.4.6 writes them).

See ``README.md`` beside this file for each field.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.workloads.base import Workload, each
from benchmarks.lab.workloads.sessions import LONGEST
from benchmarks.lab.workloads.trace_files import TraceError, read_sessions
from benchmarks.recorded import Recorded, RecordedStep

__all__ = ["TraceError", "from_trace"]


def from_trace(path: Path | str, *, longest: int = LONGEST) -> Workload:
    """A workload of recorded sessions; it has as many agents as the recording has sessions, unless told otherwise.

    A seed shuffles the sessions. With fewer agents than sessions each is used once at most; further agents repeat
    sessions drawn at random. Sessions without a step are left out.

    Args:
        path: a file, or a folder in which files are looked for at any depth.
        longest: tokens an engine takes. A session is cut before the step that would pass it, and left out where that
            is its first.

    Raises:
        TraceError: the recording cannot be read; names file, line and field.
    """
    path = Path(path)
    recorded = [session for session in read_sessions(path) if session.steps]
    kept = [cut for session in recorded if (cut := _cut(session, longest)).steps]
    if not kept:
        raise TraceError(f"{path}: no session has a step of at most {longest:,} tokens")
    shortened = sum(len(cut.steps) for cut in kept) < sum(len(session.steps) for session in recorded)
    return Workload(
        name=f"trace:{path.name}",
        about=f"{len(kept)} recorded sessions of {path.name}" + (f", cut at {longest:,} tokens" if shortened else ""),
        agents=len(kept),
        make=_Sample(tuple(kept)),
        source="the user's recording",
    )


def _cut(session: Recorded, longest: int) -> Recorded:
    fitting: list[RecordedStep] = []
    for step in session.steps:
        if step.prompt + step.output > longest:
            break
        fitting.append(step)
    return Recorded(session.name, tuple(fitting), session.prefix_tokens)


@dataclass(frozen=True, slots=True)
class _Sample:
    sessions: Sequence[Recorded]

    def __call__(self, rng: random.Random, agents: int) -> Batch:
        order = rng.sample(self.sessions, len(self.sessions))

        def plan(own: random.Random, index: int) -> Plan:
            session = order[index] if index < len(order) else own.choice(order)
            steps = tuple(Step(step.prompt, step.output, step.tool_s) for step in session.steps)
            return Plan(f"{session.name}#{index}", steps, prefix_tokens=session.prefix_tokens)

        return Batch.of(each(rng, agents, plan))
