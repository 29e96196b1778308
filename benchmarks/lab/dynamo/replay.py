"""One replay by Dynamo, and what it says of it."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.lab.batch import Batch
from benchmarks.lab.dynamo.install import DynamoError
from benchmarks.lab.dynamo.timing import Timing, write_table
from benchmarks.lab.dynamo.trace import trace_block, turns, write_trace

__all__ = ["Replayed", "engine_args", "parse_report", "replay"]

WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """How a replay came out."""

    makespan_s: float
    hit_rate: float
    """Of all prompt tokens, the share found cached when first admitted."""
    turns: int
    """That got through."""
    prompt_tokens: int


def engine_args(kind: str, *, pool: int, page: int, batched: int, running: int) -> dict[str, Any]:
    """Dynamo's ``MockEngineArgs``, without the table.

    Args:
        kind: ``sglang`` or ``vllm``.
        pool: tokens that requests can have, in whole pages.
        page: tokens of a page or block.
        batched: most tokens a pass prefills (SGLang's ``chunked_prefill_size``, vLLM's ``max_num_batched_tokens``).
        running: most requests at once.
    """
    args: dict[str, Any] = {
        "engine_type": kind,
        "num_gpu_blocks": pool // page,
        "block_size": page,
        "max_num_seqs": running,
        "max_num_batched_tokens": batched,
    }
    if kind == "sglang":
        args["sglang"] = {"page_size": page, "chunked_prefill_size": batched, "max_prefill_tokens": batched}
    return args


def parse_report(text: str) -> Replayed:
    """Read the report: the last line of what the worker says.

    Raises:
        DynamoError: it is not one.
    """
    try:
        report: Mapping[str, Any] = json.loads(text.splitlines()[-1])
        return Replayed(
            makespan_s=report["duration_ms"] / 1000,
            hit_rate=report["first_admission_prefix_cache_reused_ratio"],
            turns=report["completed_requests"],
            prompt_tokens=report["total_input_tokens"],
        )
    except (ValueError, KeyError, IndexError, TypeError) as problem:
        raise DynamoError(f"no report, but {text[-500:]!r}: {problem!r}") from problem


def replay(python: Path, batch: Batch, engine: Mapping[str, Any], timing: Timing, *, cap: int, spare: int) -> Replayed:
    """Let Dynamo simulate a batch under a cap of sessions.

    Args:
        python: interpreter of Dynamo's environment.
        batch: see :func:`benchmarks.lab.dynamo.trace.turns`.
        engine: from :func:`engine_args`.
        timing: seconds of its passes.
        cap: sessions at a time; one keeps its place until it has ended, its tools included.
        spare: see :func:`benchmarks.lab.dynamo.trace.turns`.

    Raises:
        ValueError: its trace format cannot say the batch.
        DynamoError: it failed, or lost a turn.
    """
    with tempfile.TemporaryDirectory(prefix="dynamo-") as name:
        folder = Path(name)
        write_trace(folder / "trace.jsonl", turns(batch, spare=spare))
        write_table(folder / "table.npz", timing)
        job = {
            "trace": str(folder / "trace.jsonl"),
            "block": trace_block(batch),
            "cap": cap,
            "engine": {**engine, "planner_profile_data": str(folder / "table.npz")},
        }
        done = subprocess.run(
            [str(python), str(WORKER)], input=json.dumps(job), capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise DynamoError(f"the replay failed: {done.stderr[-1000:]}")
    replayed = parse_report(done.stdout)
    if replayed.turns < (wanted := sum(len(plan.steps) for plan in batch.plans)):
        raise DynamoError(f"the replay finished {replayed.turns} of {wanted} turns")
    return replayed
