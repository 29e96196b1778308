"""Real SGLang on a CPU: one core for its forward passes, a pool of 16,000 tokens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from benchmarks.engines.engine import Engine
from benchmarks.engines.kinds import SGLANG, listed
from benchmarks.engines.launch import Launch, launched
from benchmarks.engines.sglang_cpu.model import SHAPE

__all__ = ["FLAGS", "launch_of", "sglang_cpu"]

SHIMS = Path(__file__).parent / "shims"
START_S = 300.0
"""24 to 116 s have been seen, most of it imports."""

FLAGS = {
    # No GPU: attention and sampling in plain torch, float32 because CPUs are slow at anything shorter, and nothing
    # that needs CUDA graphs or a second stream.
    "--device": "cpu",
    "--attention-backend": "torch_native",
    "--sampling-backend": "pytorch",
    "--dtype": "float32",
    "--disable-cuda-graph": None,
    "--disable-overlap-schedule": None,
    # Weights are random, so there is no file to load; the seed makes them, and so the replies, the same every time.
    "--load-format": "dummy",
    "--random-seed": "0",
    # The benchmark: a pool that 24 agents overfill, and exact prefixes.
    "--max-total-tokens": "16000",
    "--context-length": "8192",
    "--page-size": "1",
    # What Concur reads. A CPU takes 20 to 80 ms a decode step, so the default of a report every 40 steps would be
    # older than a tick; a GPU does 40 steps in half a second.
    "--enable-metrics": None,
    "--enable-cache-report": None,
    "--decode-log-interval": "1",
    # The warm-up would load the model's name as a tokenizer's; the benchmark has its own. An idle engine must not
    # spin, since the agents share its two cores.
    "--skip-server-warmup": None,
    "--sleep-on-idle": None,
}

ENVIRONMENT = {
    "SGLANG_USE_CPU_ENGINE": "1",
    # One thread is several times faster than two on a small machine: the matrices are so small that the threads
    # mostly wait for each other, and for the processes of server and agents.
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}


def sglang_cpu(python: Path, model: Path, log: Path, more: Sequence[str] = ()) -> AbstractAsyncContextManager[Engine]:
    """A server of its own, ended with all its processes when the block is left.

    Args:
        python: interpreter of the environment that has SGLang.
        model: folder that ``model.py`` wrote.
        log: file for what the server prints.
        more: flags beside :data:`FLAGS`.

    Raises:
        EngineError: it cannot be started.
    """
    return launched(launch_of(python, model), more, log=log)


def launch_of(python: Path, model: Path) -> Launch:
    """The same, not started yet."""
    return Launch(
        kind=SGLANG,
        model=str(model),
        flags=("--served-model-name", "words", *listed(FLAGS)),
        python=python,
        environment={**ENVIRONMENT, "PYTHONPATH": str(SHIMS)},
        start_s=START_S,
        hermetic=True,
        about={"model": dict(SHAPE)},
    )
