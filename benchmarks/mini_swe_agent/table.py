"""The README's table, from the record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.mini_swe_agent.gateway import KIND
from benchmarks.swebench.config import EMBEDDED

__all__ = ["gateways", "markdown"]


def gateways(summary: Mapping[str, Any]) -> list[str]:
    """What each gateway has seen: a line an arm and repeat, none for arms without one."""
    return [
        f"`{name}`: the gateway saw {seen['agents']} agents ({seen['expired']} taken to have ended by then) for "
        f"{arm['agents']} instances, {'each with' if seen['same_steps'] else 'not each with'} as many steps as one of "
        "these has generations."
        for name, arm in summary["arms"].items()
        for seen in arm.get("gateway") or ()
    ]


def markdown(summary: Mapping[str, Any]) -> str:
    """The Markdown of one record."""
    config, arms, versions = summary["config"], summary["arms"], summary["versions"]
    first = arms.get("uncontrolled") or next(iter(arms.values()))
    share = first["peak_context_tokens"] / first["capacity_tokens"]
    lines = [
        "| arm | makespan s | speed-up | hit rate | recomputed tokens | resolved | lost |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(_row(name, arm) for name, arm in arms.items()),
        "",
    ]
    lines.append(
        f"- `mini-extra swebench` of mini-swe-agent {versions['mini-swe-agent']}, unmodified: {first['agents']} "
        f"instances by as many workers in its bubblewrap environment, {len(summary['tasks'])} tasks built from PyPI, "
        f"{first['steps']} generations; replies scripted (seed {config['seed']}), commands, patches and tests real."
    )
    lines.append(
        f"- {_engine(config, first)} tokens; at the peak the contexts would fill it {share:.1f} times. "
        f"Makespan in wall seconds on {summary['cpus']} cores."
    )
    if any(name != "uncontrolled" and not name.startswith(KIND) for name in arms):
        lines.append(
            "- Without Concur the command is `mini-extra swebench ...`, with it "
            "`python -m concur_agents_mini_swe_agent swebench ...` and a `concur:` block in its configuration; nothing "
            "else differs."
        )
    if any(name.startswith(KIND) for name in arms):
        lines.append(
            "- Through `concur gateway` it is `mini-extra swebench ...` too, and only `api_base` differs: no request "
            "says whose it is."
        )
    lines += [f"- {line}" for line in gateways(summary)]
    lines.append(
        f"- Medians of {config['repeats']} interleaved repeats; speed-up within each repeat: median (lowest..highest)."
    )
    return "\n".join(lines) + "\n"


def _engine(config: Mapping[str, Any], arm: Mapping[str, Any]) -> str:
    if config.get("engine", EMBEDDED) == EMBEDDED:
        return (
            f"Embedded engine, preset `{config['preset']}`, clock {config['speedup']:g}x, "
            f"pool {config['pool_tokens']:,}"
        )
    name, pool = arm["repeats"][0]["engine"], f"pool {arm['capacity_tokens']:,}"
    if not (characters := config.get("characters_per_token")):
        return f"{name}, {pool}"
    return (
        f"{name}, random weights, behind a front (`benchmarks/front`) that says the script's words: each generation is "
        f"as long as its reply, a token for every {characters} characters; {pool}"
    )


def _row(name: str, arm: Mapping[str, Any]) -> str:
    spread = arm["speedup"]
    speedup = "?" if spread is None else f"{spread['median']:.2f} ({spread['min']:.2f}..{spread['max']:.2f})"
    return (
        f"| `{name}` | {arm['makespan_s']:.1f} | {speedup} | {arm['hit_rate']:.0%} | {arm['recomputed_tokens']:,} "
        f"| {arm['resolved']} of {arm['agents']} | {arm['lost']} |"
    )
