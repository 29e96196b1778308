"""A batch as Dynamo's replay reads it: its ``mooncake-delta`` format, one JSON object a turn.

A turn says how many tokens it adds to its session's context (``input_length``), which trace blocks these are
(``hash_ids``, each ``trace_block_size`` tokens, the last one cut), how many it generates (``output_length``) and how
many milliseconds after the turn before it comes (``delay``). What a turn generates joins the context of the next one,
so it is found cached there. Ids are equal where tokens are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count
from math import gcd
from pathlib import Path
from typing import Any

from benchmarks.lab.batch import Batch, Plan

__all__ = ["trace_block", "turns", "write_trace"]

BLOCK = 1024
"""Tokens of a trace block where nothing is shared: any number would do."""


def trace_block(batch: Batch) -> int:
    """Tokens of a trace block: all shared prefixes of the batch are whole blocks of it."""
    return gcd(*(plan.prefix_tokens for plan in batch.plans)) or BLOCK


def turns(batch: Batch, *, spare: int) -> Iterator[dict[str, Any]]:
    """One object a turn, agent by agent, in the batch's order.

    Args:
        batch: of one wave; everybody is there from the beginning, and contexts only grow.
        spare: tokens of each output that are written as the next turn's input instead of being generated; an output
            keeps at least one.

    Raises:
        ValueError: naming what the format cannot say.
    """
    if len(batch.waves) > 1:
        raise ValueError("the replay knows no waves")
    ids, block = count(1), trace_block(batch)
    shared: dict[tuple[int, int], int] = {}
    for plan in batch.plans:
        if plan.arrival_s:
            raise ValueError(f"agent {plan.agent_id!r} arrives late: under a session cap the replay lets nobody")
        for number, (added, output) in enumerate(_lengths(plan, spare)):
            blocks = -(-added // block)
            first = -(-min(plan.prefix_tokens, added) // block) if number == 0 else 0
            known = [shared.setdefault((plan.prefix, part), next(ids)) for part in range(first)]
            turn = {
                "session_id": plan.agent_id,
                "input_length": added,
                "output_length": output,
                "hash_ids": known + [next(ids) for _ in range(blocks - first)],
            }
            yield {**turn, "delay": plan.steps[number - 1].tool_s * 1000} if number else turn


def write_trace(path: Path, lines: Iterator[dict[str, Any]]) -> None:
    """Write what :func:`turns` says."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def _lengths(plan: Plan, spare: int) -> Sequence[tuple[int, int]]:
    """Tokens added and generated, step by step."""
    lengths, context = [], 0
    for number, step in enumerate(plan.steps):
        output = max(1, step.output - spare)
        if step.prompt <= context:
            raise ValueError(f"agent {plan.agent_id!r}, step {number}: its context shrinks, which a delta cannot say")
        lengths.append((step.prompt - context, output))
        context = step.prompt + output
    return lengths
