"""The tables in README and docs, from the records under ``results/``: ``python -m benchmarks.tables``.

A table stands between ``<!-- results:NAME -->`` and ``<!-- /results:NAME -->`` and is made of ``results/NAME.json``
alone; a test holds the README to it, so that no figure is typed by hand. To measure again, run the command under it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.fleet.real.table import markdown as fleet_real_markdown
from benchmarks.fleet.table import markdown as fleet_markdown
from benchmarks.frameworks.table import markdown as frameworks_markdown
from benchmarks.gateway.table import markdown as gateway_markdown
from benchmarks.lab.cells import Record as LabRecord
from benchmarks.lab.goals import markdown as goals_markdown
from benchmarks.lab.real.report import brief
from benchmarks.lab.real.report import markdown as lab_real_markdown
from benchmarks.lab.real.store import Store
from benchmarks.lab.records import read_records
from benchmarks.lab.report import Report
from benchmarks.lab.scale import markdown as scale_markdown
from benchmarks.lab.tables import markdown as lab_markdown
from benchmarks.lab.tables import sheets
from benchmarks.mini_swe_agent.table import markdown as mini_swe_agent_markdown
from benchmarks.ray.table import markdown as ray_markdown
from benchmarks.real.record import Record
from benchmarks.real.table import markdown
from benchmarks.remote.cli import markdown as remote_markdown
from benchmarks.swebench.table import markdown as swebench_markdown

__all__ = ["filled", "table"]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (
    ROOT / "README.md",
    ROOT / "benchmarks" / "real" / "README.md",
    ROOT / "docs" / "engines.md",
    ROOT / "docs" / "ray.md",
    ROOT / "docs" / "frameworks" / "README.md",
    ROOT / "docs" / "gateway.md",
    ROOT / "docs" / "lab" / "results.md",
    ROOT / "docs" / "remote.md",
    ROOT / "docs" / "swebench" / "README.md",
)

_COMMANDS = {
    "swebench": "make bench ARGS='--repeats 3'",
    "swebench_b256": "python -m benchmarks.swebench run --preset laptop-b256",
    "swebench_sglang": "python -m benchmarks.swebench run --preset sglang-cpu",
    "fits": "make bench-fits ARGS='--repeats 2'",
    "real": "make bench-real",
    "frameworks": "make bench-frameworks ARGS='--repeats 4'",
    "mini_swe_agent": "make bench-mini-swe-agent ARGS='--repeats 3'",
    "fleet": "make bench-fleet ARGS='--seeds 3 --json benchmarks/results/fleet.json'",
    "fleet_real": "python -m benchmarks.fleet.real run --json benchmarks/results/fleet_real.json",
    "gateway": "make bench-gateway ARGS='--seconds 3'",
    "gateway_real": "make bench-mini-swe-agent ARGS='--engine launch --characters 32 --agents 64 --repeats 2 "
    "--arms uncontrolled,gateway'",
    "ray": "make bench-ray ARGS='--engines 16 --agents 2000 --json benchmarks/results/ray.json'",
    "remote": "make bench-remote ARGS='--json benchmarks/results/remote.json'",
    "lab": "make lab-full",
    "lab_engines": "make lab-full ARGS='--seeds 1 "
    "--engines qwen3-32b-tp8,vllm-qwen3-32b-tp2,deepseek-v3-tp16,qwen3-32b-tp4 "
    "--workloads swe,coding-sessions,react-10,mixed,no-shared-prefix "
    "--arms uncontrolled,budget,concur,fixed:sweep,thunder'",
    "lab_goals": "make lab-full",
    "lab_parameters": "make lab-parameters",
    "lab_real": "make lab-real",
    "lab_scale": "python -m benchmarks.lab scale --json benchmarks/results/lab_scale.json",
    "lab_real_brief": "make lab-real",
}
_MADE: Mapping[str, Callable[[Any], str]] = {
    "fleet": fleet_markdown,
    "fleet_real": fleet_real_markdown,
    "frameworks": lambda data: frameworks_markdown(data) + "\n",
    "gateway": gateway_markdown,
    "ray": ray_markdown,
    "gateway_real": mini_swe_agent_markdown,
    "lab_scale": scale_markdown,
    "mini_swe_agent": mini_swe_agent_markdown,
    "real": markdown,
    "remote": remote_markdown,
}
"""What makes the table of a record; of the others, runs of the SWE benchmark, their own does."""
_RECORDS = {"lab_goals": "lab", "lab_real_brief": "lab_real"}
"""Tables that share another's record."""
_MARKED = re.compile(r"(<!-- results:(\w+) -->\n).*?(<!-- /results:\2 -->)", re.DOTALL)


def table(name: str) -> str:
    """The Markdown of one record; a line that says so where there is none yet."""
    lines = name.startswith("lab") and name != "lab_scale"  # a cell a line, as the lab writes them
    path = RESULTS / f"{_RECORDS.get(name, name)}.{'jsonl' if lines else 'json'}"
    if not path.exists():
        return f"*Not measured yet: `{_COMMANDS[name]}`.*\n"
    if lines:
        return _lab(name, path)
    made: Callable[[Any], str] = _MADE.get(name, swebench_markdown)
    body = made(Record.load(path) if name == "real" else json.loads(path.read_text()))
    return f"{body}- Measure it again: `{_COMMANDS[name]}`.\n"


def _lab(name: str, path: Path) -> str:
    """Of a record with a cell a line."""
    if name.startswith("lab_real"):
        store = Store.load(path)
        body = brief(store) if name.endswith("_brief") else lab_real_markdown(store)
        return f"{body}- Measure it again: `{_COMMANDS[name]}`.\n"
    if name == "lab_goals":
        return goals_markdown(Report(read_records(path), ours="budget"))
    if name == "lab_engines":
        records = read_records(path)
        by_engine = sheets(Report(records, ours="budget"), brief=True)[-2]
        workloads = ", ".join(f"`{each}`" for each in dict.fromkeys(record.workload for record in records))
        return f"{lab_markdown([by_engine])}\n- Of {workloads}.\n- Measure it again: `{_COMMANDS[name]}`.\n"
    if name == "lab_parameters":
        body = "\n".join(_parameters(read_records(path))) + "\n"
        return f"{body}- Measure it again: `{_COMMANDS[name]}`.\n"
    every = sheets(Report(read_records(path), ours="budget"), brief=True)
    body = lab_markdown([every[-1], *every[:-2]])  # the means first; by engine there is nothing: it is one
    return f"{body}\n- Measure it again: `{_COMMANDS[name]}`.\n"


def _parameters(records: Sequence[LabRecord]) -> Iterator[str]:
    """Makespan of each variant of the default law over its own, by workload."""
    times = {(each.arm, each.workload, each.seed): each.makespan_s for each in records if each.makespan_s}
    yield "| instead of `budget` | makespan over its own: mean | least | most |"
    yield "|---|---:|---:|---:|"
    for arm in dict.fromkeys(each.arm for each in records):
        ratios = [
            time / times["budget", workload, seed]
            for (name, workload, seed), time in times.items()
            if name == arm != "budget" and ("budget", workload, seed) in times
        ]
        if ratios:
            yield f"| `{arm}` | {geometric_mean(ratios):.3f} | {min(ratios):.3f} | {max(ratios):.3f} |"
    workloads = len({each.workload for each in records})
    yield ""
    yield f"- {workloads} workloads, one seed each; geometric mean, and the workloads with the least and the most."


def filled(page: str) -> str:
    """``page`` with every marked table made anew."""
    return _MARKED.sub(lambda match: f"{match[1]}\n{table(match[2])}\n{match[3]}", page)


def main() -> None:
    """Write the tables into their pages."""
    for path in PAGES:
        before = path.read_text()
        after = filled(before)
        if after != before:
            path.write_text(after)
            sys.stdout.write(f"{path.name}: tables renewed\n")


if __name__ == "__main__":
    main()
