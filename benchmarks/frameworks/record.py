"""One record of all frameworks, from the folders of their runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from benchmarks.frameworks.environments import Line
from benchmarks.swebench.config import EMBEDDED
from benchmarks.swebench.records import RunFolder
from benchmarks.swebench.summary import summarise

__all__ = ["BASELINE", "merged"]

BASELINE = "uncontrolled"
_OWN = ("framework", "arms", "repeats")
"""Of a run's config: what differs between the runs of one measurement."""


def merged(runs: Mapping[Line, Mapping[int, RunFolder]]) -> dict[str, Any]:
    """The record: what was run on what, each framework's figures, and how far apart they are.

    Args:
        runs: by repeat. A repeat counts when every framework that ran at all has it, whole.

    Raises:
        RecordError: a folder is not what a run writes.
        ValueError: there is no whole repeat, or the runs are not of the same work.
    """
    summaries = {line: {repeat: summarise(run) for repeat, run in found.items()} for line, found in runs.items()}
    summaries = {line: found for line, found in summaries.items() if found}
    whole = (
        set.intersection(
            *({repeat for repeat, summary in found.items() if summary["complete"]} for found in summaries.values())
        )
        if summaries
        else set()
    )
    if not whole:
        raise ValueError("there is no repeat that got to its end in every framework")
    repeats = sorted(whole)
    every = [found[repeat] for found in summaries.values() for repeat in repeats]
    works = [{key: value for key, value in summary["config"].items() if key not in _OWN} for summary in every]
    if any(work != works[0] for work in works):
        raise ValueError("the runs are not of the same work: their configs differ")
    engine = EMBEDDED if works[0]["engine"] == EMBEDDED else "url"  # a URL names a machine
    frameworks = {
        line.key: _framework(line, [found[repeat] for repeat in repeats]) for line, found in summaries.items()
    }
    return {
        "benchmark": "frameworks",
        "started": min(summary["started"] for summary in every),
        "cpus": every[0]["cpus"],
        "repeats": len(repeats),
        "config": {**works[0], "engine": engine},
        "tasks": every[0]["tasks"],
        "frameworks": frameworks,
        "ratios_apart": _ratios_apart(frameworks),
        "prompts_apart": _prompts_apart([[runs[line][repeat] for repeat in repeats] for line in summaries]),
    }


def _framework(line: Line, summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = sorted(summaries[0]["arms"], key=lambda name: (name != BASELINE, name == "concur"))
    return {
        "title": line.title,
        "versions": summaries[-1]["versions"],
        "arms": {name: _arm([summary["arms"][name] for summary in summaries]) for name in names},
    }


def _arm(repeats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Medians; lost, failed and resolved are the worst of all repeats."""
    ratios = [arm["speedup"]["median"] for arm in repeats if arm["speedup"]]  # of one run, so all three are the same
    return {
        "makespans_s": [arm["makespan_s"] for arm in repeats],
        "makespan_s": median(arm["makespan_s"] for arm in repeats),
        "ratio": {"median": median(ratios), "min": min(ratios), "max": max(ratios)} if ratios else None,
        "hit_rate": median(arm["hit_rate"] for arm in repeats),
        "recomputed_tokens": round(median(arm["recomputed_tokens"] for arm in repeats)),
        "agents": repeats[0]["agents"],
        "lost": max(arm["lost"] for arm in repeats),
        "failed": max(arm["failed"] for arm in repeats),
        "resolved": min(arm["resolved"] for arm in repeats),
        "steps": round(median(arm["steps"] for arm in repeats)),
        "mean_prompt_tokens": fmean(arm["prompt_tokens"] / arm["steps"] for arm in repeats),
        "cpu_ms_per_step": median(1000 * arm["harness_cpu_s"] / arm["steps"] for arm in repeats),
        "machine_busy": median(arm["machine_busy"] for arm in repeats),
    }


def _ratios_apart(frameworks: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """By arm: how much higher the highest framework's median ratio is than the lowest's. 0 is the same."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for framework in frameworks.values():
        for name, arm in framework["arms"].items():
            if name != BASELINE and arm["ratio"] is not None:
                ratios[name].append(arm["ratio"]["median"])
    return {name: max(found) / min(found) - 1 for name, found in ratios.items() if len(found) > 1}


def _prompts_apart(frameworks: Sequence[Sequence[RunFolder]]) -> float:
    """Of each task, how much longer its mean prompt is in one framework than in another: the most of all tasks."""
    by_task: dict[str, list[float]] = defaultdict(list)
    for runs in frameworks:
        prompts: dict[str, list[int]] = defaultdict(list)
        for task, tokens in _prompts(runs):
            prompts[task].append(tokens)
        for task, found in prompts.items():
            by_task[task].append(fmean(found))
    return max(max(means) / min(means) - 1 for means in by_task.values())


def _prompts(runs: Sequence[RunFolder]) -> Iterator[tuple[str, int]]:
    for run in runs:
        for arm in run.about()["config"]["arms"]:
            for agent in run.arm(arm, 1).agents():
                yield from ((agent.task_id, step.prompt_tokens) for step in agent.steps if step.prompt_tokens)
