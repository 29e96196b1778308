"""Runs by name: every row of the paper's Table 1, and what works on a laptop.

The paper (arXiv 2601.22705) names models, batch sizes, tensor parallelism and cards, and its law's parameters; but no
workload, no request cap, no size of HiCache. So these are ours: scripted agents as long as real mini-swe-agent runs,
the cap at a quarter of the batch, SGLang's default host memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from benchmarks.swebench.config import LAUNCH, RunConfig
from benchmarks.swebench.server import SGLANG_CPU, Server

__all__ = ["PRESETS", "Preset", "get_preset"]

STEPS = 150
"""Generations of an agent whose script is as long as a real run; the longest takes 115."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One run, and what it takes."""

    name: str
    about: str
    config: RunConfig
    server: Server | None = None
    """What the engine is, where that is not part of the configuration: it spans machines."""
    paper: Mapping[str, float] = field(default_factory=dict)
    """The paper's seconds in Table 1, by arm."""


def _arms(batch: int) -> tuple[str, ...]:
    return "uncontrolled", f"requests:{max(1, batch // 4)}", "hicache", "concur", "budget"


def _row(model: str, tp: int, batch: int, seconds: tuple[float, float, float, float]) -> Preset:
    """A row of Table 1: SGLang alone, with request control, with HiCache, with Concur."""
    name, repository, more = MODELS[model]
    nodes = -(-tp // CARDS)
    server = Server(
        model=repository,
        # 0.85: SGLang's own choice for such cards leaves as much for activations.
        flags=("--tp", str(tp), "--mem-fraction-static", "0.85", *more),
        nodes=nodes,
    )
    arms = _arms(batch) if nodes == 1 else ("uncontrolled", "concur", "budget")
    config = RunConfig(
        agents=batch,
        arms=arms,
        engine=LAUNCH if nodes == 1 else HEAD,
        server=server if nodes == 1 else None,
        replies="scripted",
        lengths="full",
        max_steps=STEPS,
        command_timeout_s=300.0,
        repeats=3,
    )
    return Preset(
        name=f"{model}-tp{tp}-b{batch}",
        about=f"{name}, {batch} agents, tensor parallel {tp} on {tp} H100 80 GB"
        + (f" in {nodes} machines" if nodes > 1 else ""),
        config=config,
        server=None if nodes == 1 else server,
        paper=MappingProxyType(dict(zip(_arms(batch)[:4], seconds, strict=True))),
    )


CARDS = 8
"""In one machine."""
HEAD = "http://HEAD:30000"
MODELS = {
    "qwen3-32b": ("Qwen3-32B", "Qwen/Qwen3-32B", ()),
    "deepseek-v3": ("DeepSeek-V3", "deepseek-ai/DeepSeek-V3", ("--trust-remote-code",)),
}

_ALL = (
    Preset(name="laptop", about="32 agents on the embedded engine, two minutes", config=RunConfig()),
    Preset(
        name="laptop-b256",
        about="256 agents on the embedded engine, every arm that it has",
        config=RunConfig(
            agents=256,
            arms=("uncontrolled", "requests:64", "client-requests:64", "fixed:64", "hicache", "concur", "budget"),
            pool_tokens=352_000,  # as many for each agent as in ``laptop``
            preset="qwen3-32b-h100-tp2",
            speedup=2.0,  # faster, and the commands of 256 agents set the pace of a small machine
        ),
    ),
    Preset(
        name="sglang-cpu",
        about="24 agents on real SGLang on a CPU: one core for the engine, a pool of 16,000 tokens",
        config=RunConfig(
            agents=24,
            arms=(
                "uncontrolled",
                "fixed:8",
                "concur",
                "budget",
                "requests:8",  # from here on, each has an engine of its own
                "proxy:thunderagent",
                "hicache",
            ),
            engine=LAUNCH,
            server=Server(kind=SGLANG_CPU, model="words"),
            # Its model says noise, so a front says the words; a token of 8 characters makes a batch a few minutes long,
            # in which the contexts together fill the pool four times.
            characters_per_token=8,
            repeats=3,
        ),
    ),
    _row("qwen3-32b", 8, 256, (1480, 2049, 976, 362)),
    _row("qwen3-32b", 4, 256, (2213, 1089, 1678, 757)),
    _row("qwen3-32b", 2, 256, (2527, 1383, 1112, 846)),
    _row("deepseek-v3", 16, 16, (873, 861, 2559, 521)),
    _row("deepseek-v3", 16, 32, (1226, 1367, 2277, 1018)),
    _row("deepseek-v3", 16, 40, (3877, 2903, 2320, 2043)),
)

PRESETS: Mapping[str, Preset] = MappingProxyType({preset.name: preset for preset in _ALL})


def get_preset(name: str) -> Preset:
    """A preset by name. Raises ValueError naming those there are."""
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}: choose from {', '.join(PRESETS)}")
    return PRESETS[name]
