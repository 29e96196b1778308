"""The record as Markdown, for the README beside this file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["filled", "markdown"]

LIMIT = 0.05
"""Makespans are to differ by less."""
_MARKED = re.compile(r"(<!-- results:lab_dynamo -->\n).*?(<!-- /results:lab_dynamo -->)", re.DOTALL)


def filled(page: str, record: Mapping[str, Any]) -> str:
    """``page`` with the table between its marks made anew."""
    return _MARKED.sub(lambda match: f"{match[1]}\n{markdown(record)}\n{match[2]}", page)


def markdown(record: Mapping[str, Any]) -> str:
    """What was run with, what came out in short, and every cell."""
    lines = [f"Versions: {', '.join(f'{name} {version}' for name, version in record['versions'].items())}.", ""]
    lines += _short(record["cells"])
    lines += ["", *_cells(record["cells"])]
    lines += ["", "With SGLang's chunks, everything fitting, no cap:", "", *_chunked(record["chunked"])]
    lines += [
        "",
        "vLLM's kind, everything fitting, with and without a shared prefix:",
        "",
        *_unshared(record["unshared"]),
    ]
    return "\n".join(lines) + "\n"


def _short(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| engine | cells | within 5% | mean difference | largest | largest with Dynamo's rules |"
    yield "|---|---|---|---|---|---|"
    for engine in dict.fromkeys(cell["engine"] for cell in cells):
        group = [cell for cell in cells if cell["engine"] == engine]
        off = [_off(cell) for cell in group]
        asked = [_off(cell, "with_dynamos_rules_makespan_s") for cell in group]
        ruled = f"{max(asked):.1%}" if any("with_dynamos_rules_makespan_s" in cell for cell in group) else "not asked"
        yield (
            f"| {engine} | {len(group)} | {sum(each <= LIMIT for each in off)} | {sum(off) / len(off):.2%} "
            f"| {max(off):.1%} | {ruled} |"
        )


def _off(cell: Mapping[str, Any], which: str = "makespan_s") -> float:
    """How far from Dynamo's; with its rules only where that was asked, else as it is."""
    return abs(float(cell.get(which, cell["makespan_s"])) / float(cell["dynamo_makespan_s"]) - 1)


def _cells(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield (
        "| engine | workload | agents | pool | cap | makespan s | Dynamo s | ratio | hits | Dynamo hits "
        "| ratio with Dynamo's rules | hits then |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for cell in cells:
        ruled, hits = cell.get("with_dynamos_rules_makespan_s"), cell.get("with_dynamos_rules_hit_rate")
        yield (
            f"| {cell['engine']} | {cell['workload']} | {cell['agents']} "
            f"| {cell['pool_tokens'] // 1000}k | {cell['cap']} "
            f"| {cell['makespan_s']:.1f} | {cell['dynamo_makespan_s']:.1f} "
            f"| {cell['makespan_s'] / cell['dynamo_makespan_s']:.3f} "
            f"| {cell['hit_rate']:.3f} | {cell['dynamo_hit_rate']:.3f} "
            f"| {'' if ruled is None else format(ruled / cell['dynamo_makespan_s'], '.3f')} "
            f"| {'' if hits is None else format(hits, '.3f')} |"
        )


def _chunked(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| workload | chunk | makespan s | Dynamo s | hits | Dynamo hits |"
    yield "|---|---|---|---|---|---|"
    for cell in cells:
        chunk = cell["chunk"] if cell["chunk"] < 1 << 20 else "none"
        yield (
            f"| {cell['workload']} | {chunk} | {cell['makespan_s']:.1f} | {cell['dynamo_makespan_s']:.1f} "
            f"| {cell['hit_rate']:.3f} | {cell['dynamo_hit_rate']:.3f} |"
        )


def _unshared(cells: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "| workload | cap | prefix | makespan s | Dynamo s | ratio |"
    yield "|---|---|---|---|---|---|"
    for cell in cells:
        yield (
            f"| {cell['workload']} | {cell['cap']} | {'shared' if cell['shared'] else 'own'} "
            f"| {cell['makespan_s']:.1f} | {cell['dynamo_makespan_s']:.1f} "
            f"| {cell['makespan_s'] / cell['dynamo_makespan_s']:.4f} |"
        )
