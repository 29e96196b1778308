"""Scripted agents: replies made in advance whose commands really explore, really fix and really test a task.

What a reply costs follows real runs (mini-swe-agent with DeepSeek on SWE-bench Lite, 13,964 steps): output per step
with median 89, 90th percentile 616 and maximum 3,504 tokens, drawn here from the log-normal distribution with that
median and percentile. Those runs take 52 to 115 steps; ours take 6 to about 20, so that a batch ends in minutes. The
text is as long as its tokens say (4 characters each), since an agent's context grows by its text.

A share of the agents gives up without a fix, so that "resolved" is what the tests find and not what the script says.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from benchmarks.swebench.edits import Edit, hunks_of, whole_lines
from benchmarks.swebench.tasks import Task
from benchmarks.swebench.thoughts import CHARACTERS_PER_TOKEN, thought

__all__ = ["LENGTHS", "SolverConfig", "scripted_replies"]

Z_90 = 1.2816
"""Standard normal quantile of 0.9."""
WINDOW_LINES = 60
"""Lines that one look at a file shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverConfig:
    """How scripted agents behave.

    Raises:
        ValueError: a field is out of range; the message names it and its value.
    """

    min_steps: int = 6
    """Fewest steps of an agent, the last reply included. At least 5."""
    max_steps: int = 20
    """Most steps, unless the fix alone takes more (one for each file). At least ``min_steps``."""
    median_output_tokens: int = 89
    p90_output_tokens: int = 616
    max_output_tokens: int = 3504
    gives_up: float = 0.1
    """Share of agents that end without applying the fix, 0..1."""

    def __post_init__(self) -> None:
        if self.min_steps < 5:
            raise ValueError(f"min_steps must be at least 5, not {self.min_steps}")
        if self.max_steps < self.min_steps:
            raise ValueError(f"max_steps must be at least min_steps ({self.min_steps}), not {self.max_steps}")
        if not 0 < self.median_output_tokens < self.p90_output_tokens <= self.max_output_tokens:
            raise ValueError(
                "median_output_tokens, p90_output_tokens and max_output_tokens must be above 0 and rise, not "
                f"{self.median_output_tokens}, {self.p90_output_tokens}, {self.max_output_tokens}"
            )
        if not 0 <= self.gives_up <= 1:
            raise ValueError(f"gives_up must be from 0 to 1, not {self.gives_up}")


LENGTHS = {
    # A fifth of the real ones, because contexts are: some 5k tokens after a dozen steps, there 34k after 76. With
    # full-length replies decoding would outweigh prefill as in no real run.
    "short": SolverConfig(median_output_tokens=18, p90_output_tokens=123, max_output_tokens=700),
    "full": SolverConfig(min_steps=52, max_steps=115),
}
"""By the name that a run takes. ``full`` is as long as the real runs."""


def scripted_replies(task: Task, *, seed: int, config: SolverConfig | None = None) -> list[dict[str, Any]]:
    """One agent's replies, in order, in the form the embedded engine takes.

    Each is ``{"content": str, "tool_calls": [call] | None, "output_tokens": int}``, where a call is ``{"name": "bash",
    "arguments": {"command": str}}``; the last reply has no calls. The same task, seed and config always give the same
    replies.
    """
    config = config or SolverConfig()
    rng = random.Random(f"{task.task_id} {seed}")
    gives_up = rng.random() < config.gives_up
    replies = [_reply(rng, config, why, command) for why, command in _plan(task, rng, config, gives_up=gives_up)]
    return [*replies, _reply(rng, config, "give up" if gives_up else "submit", None)]


def _plan(task: Task, rng: random.Random, config: SolverConfig, *, gives_up: bool) -> Iterator[tuple[str, str]]:
    """(purpose, command) of each step but the last."""
    test = _test(task, 40)
    fixes = _fixes(task)
    if gives_up:
        end = [("try", _harmless_try(task)), ("test again", test)]
    else:
        end = [*(("fix", fix) for fix in fixes), ("test again", test)]
    steps = max(rng.randint(config.min_steps, config.max_steps), len(end) + 3)
    looks = list(_looks(task, rng))
    wanted = steps - len(end) - 2  # less the first test run and the last reply
    chosen = sorted(rng.sample(range(len(looks)), min(wanted, len(looks))))
    exploring = [("look", looks[number]) for number in chosen]
    while len(exploring) < wanted:
        exploring.append(("try", _harmless_try(task)))
    early = min(len(exploring), rng.randint(1, 3))
    yield from exploring[:early]
    yield "test", test
    yield from exploring[early:]
    yield from end


def _looks(task: Task, rng: random.Random) -> Iterator[str]:
    """Ways to look at the task, from the outside in: more of them than an agent takes."""
    paths = _paths(task)
    folder = PurePosixPath(paths[0]).parent
    yield "ls"
    yield f"ls {folder}"
    yield "head -n 40 README* | cut -c 1-200"
    yield f"find . -name '*.py' -not -path './docs/*' | sort | head -n {rng.choice((40, 60, 80))}"
    yield f"wc -l {folder}/*.py | tail -n 30"
    yield "python -c 'import sys; print(sys.version)'"
    yield "grep -rn 'TODO\\|FIXME' --include='*.py' . | head -n 20"
    for path in paths:
        yield f"grep -n '^class \\|^def \\|    def ' {path} | head -n 120"
    for edit in task.solution:
        yield from _around(task, edit, rng)
    for path, line in hunks_of(task.patch):
        yield f"sed -n '{max(1, line - rng.randint(5, WINDOW_LINES // 2))},{line + WINDOW_LINES}p' {path}"
    for path in paths:
        if (file := task.workspace / path).is_file():
            lines = file.read_bytes().count(b"\n")
            for first in range(1, lines, WINDOW_LINES):
                yield f"sed -n '{first},{first + WINDOW_LINES - 1}p' {path}"


def _around(task: Task, edit: Edit, rng: random.Random) -> Iterator[str]:
    if not edit.old:
        return
    text = (task.workspace / edit.path).read_bytes().decode()
    line = text[: text.index(edit.old)].count("\n") + 1
    first = max(1, line - rng.randint(5, WINDOW_LINES // 2))
    yield f"sed -n '{first},{first + WINDOW_LINES}p' {edit.path}"
    yield f"sed -n '{max(1, first - WINDOW_LINES)},{first}p' {edit.path}"
    words = sorted(
        {word for word in edit.old.replace("(", " ").replace(".", " ").split() if word.isidentifier()}, key=len
    )
    if words:
        yield f"grep -rn --include='*.py' '{words[-1]}' . | cut -c 1-160 | head -n 30"


def _paths(task: Task) -> list[str]:
    """Files that the fix changes."""
    return sorted({edit.path for edit in task.solution} | {path for path, _ in hunks_of(task.patch)})


def _harmless_try(task: Task) -> str:
    """Edit a file, test, and put it back: what a try that leads nowhere leaves behind is nothing."""
    path = task.solution[0].path if task.solution else _paths(task)[0]
    return (
        f"cp {path} /tmp/before.py && echo '# checking that this file is the one in use' >> {path} && "
        f"{{ {_test(task, 15)}; }}; cp /tmp/before.py {path}"
    )


def _test(task: Task, lines: int) -> str:
    """Run the tests, and show the end of what they print."""
    command = f"{{ {task.test_command}; }}" if task.official else task.test_command  # official ones may be several
    return f"{command} 2>&1 | tail -n {lines}"


def _fixes(task: Task) -> list[str]:
    """One command for each file, which fails loudly where the text is not as expected."""
    if task.patch:
        undo = " -R" if task.patch_is_bug else ""
        return [f"git apply -v{undo} - <<'END_OF_FIX'\n{whole_lines(task.patch)}END_OF_FIX"]
    files: dict[str, list[Edit]] = {}
    for edit in task.solution:
        files.setdefault(edit.path, []).append(edit)
    return [_fix(path, edits) for path, edits in files.items()]


def _fix(path: str, edits: list[Edit]) -> str:
    if not edits[0].old:
        body = f"path.parent.mkdir(parents=True, exist_ok=True)\ntext = {edits[0].new!r}\n"
    else:
        body = "text = path.read_bytes().decode()\n" + "".join(
            f"old = {edit.old!r}\nnew = {edit.new!r}\nassert text.count(old) == 1, 'not where it should be'\n"
            "text = text.replace(old, new)\n"
            for edit in edits
        )
    return (
        "python - <<'END_OF_EDIT'\nfrom pathlib import Path\n"
        f"path = Path({path!r})\n{body}path.write_bytes(text.encode())\nprint('edited', path)\nEND_OF_EDIT"
    )


def _reply(rng: random.Random, config: SolverConfig, purpose: str, command: str | None) -> dict[str, Any]:
    spread = math.log(config.p90_output_tokens / config.median_output_tokens) / Z_90
    drawn = min(config.max_output_tokens, round(rng.lognormvariate(math.log(config.median_output_tokens), spread)))
    inside = len(command or "") // CHARACTERS_PER_TOKEN
    content = thought(rng, purpose, max(1, drawn - inside))
    calls = None if command is None else [{"name": "bash", "arguments": {"command": command}}]
    return {
        "content": content,
        "tool_calls": calls,
        "output_tokens": max(1, inside + len(content) // CHARACTERS_PER_TOKEN),
    }
