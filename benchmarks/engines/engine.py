"""A running engine, as benchmarks see it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.engines.kinds import SGLANG, VLLM_KIND, Kind
from benchmarks.engines.wire import EngineError, call, fetch
from benchmarks.machine import session_cpu_s
from concur_agents import EngineReadError
from concur_agents.engines import EngineReader

__all__ = ["SCHEDULING", "Engine", "connect"]

SCHEDULING = (
    "chunked_prefill_size",
    "context_length",
    "decode_log_interval",
    "max_prefill_tokens",
    "max_total_tokens",
    "page_size",
    "schedule_conservativeness",
)
"""What a server says of itself that its emulator must be told; each is also a field of ``EngineConfig``."""

FLUSH_TRIES = 300
FLUSH_EVERY_S = 0.2
"""A flush is refused while anything runs. After a run that was given up, what it left may run for up to a minute."""
READ_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A running engine."""

    url: str
    """Without a trailing slash and without ``/v1``."""
    name: str
    """What heads its figures: the engine's name and version."""
    model: str
    scheduling: Mapping[str, Any]
    """Its values of :data:`SCHEDULING`; those it does not tell are None."""
    kind: Kind = SGLANG
    about: Mapping[str, Any] = field(default_factory=dict)
    """What else a reader of the figures has to know: flags, the model's shape. Names no path and no host."""
    speedup: float = 1.0
    """Engine seconds in one wall second."""
    session: int | None = None
    """Process session of a server that was started here."""
    check: Callable[[], None] = field(default=lambda: None)
    """Raises EngineError, with the reason, when a server that was started here has ended."""

    async def flush(self) -> None:
        """Empty the prefix cache, as soon as the engine is idle.

        Raises:
            EngineError: it does not become idle, cannot do that, or is gone.
        """
        path = self.kind.flush_path
        for _ in range(FLUSH_TRIES):
            self.check()
            status, text = await asyncio.to_thread(call, "POST", f"{self.url}{path}")
            if status == 200:
                return
            if status == 404:
                break
            await asyncio.sleep(FLUSH_EVERY_S)
        raise EngineError(f"{self.url}{path} answered {status}, so runs would share a cache: {text[:300]}")

    async def check_alive(self) -> None:
        """Raise EngineError, with the reason, when it does not answer any more."""
        self.check()
        await asyncio.to_thread(fetch, "GET", f"{self.url}/v1/models")

    async def generate(self, body: Mapping[str, Any]) -> Any:
        """What SGLang's own ``/generate`` answers. Raises EngineError."""
        self.check()
        return await asyncio.to_thread(fetch, "POST", f"{self.url}/generate", body, timeout_s=120.0)

    def reader(self) -> EngineReader:
        """Of its metrics, for a controller."""
        return self.kind.reader(self.url)

    @property
    def capacity_tokens(self) -> int | None:
        """Size of the KV pool; None when it does not say."""
        size = self.scheduling.get("max_total_tokens")
        return int(size) if size else None

    def cpu_s(self) -> float | None:
        """CPU seconds that a server that was started here has used so far; None for one elsewhere."""
        return None if self.session is None else session_cpu_s(self.session)


async def connect(url: str, **more: Any) -> Engine:
    """The engine at ``url``, as it describes itself.

    Raises:
        EngineError: nobody answers there, or it is neither SGLang nor vLLM.
    """
    url = url.rstrip("/").removesuffix("/v1")
    status, text = await asyncio.to_thread(call, "GET", f"{url}/server_info")
    # vLLM has that page too where it offers to empty its cache (VLLM_SERVER_DEV_MODE): with other words on it.
    sglang = status == 200 and '"vllm_config"' not in text
    return await (_sglang(url, more) if sglang else _vllm(url, more))


async def _sglang(url: str, more: Mapping[str, Any]) -> Engine:
    info = await asyncio.to_thread(fetch, "GET", f"{url}/server_info")
    try:
        scheduling = {name: info.get(name) for name in SCHEDULING}
        scheduling["max_total_tokens"] = info["max_total_num_tokens"]
        name = f"{SGLANG.title} {info['version']}"
    except (LookupError, TypeError, AttributeError) as error:
        raise EngineError(f"{url} does not describe itself as SGLang does: {error!r}") from None
    model = (await _model(url))["id"]
    about = {"url": url, "name": name, "model": model, "scheduling": scheduling, "kind": SGLANG}
    return Engine(**{**about, **more})


async def _vllm(url: str, more: Mapping[str, Any]) -> Engine:
    status, text = await asyncio.to_thread(call, "GET", f"{url}/version")
    if status != 200:
        raise EngineError(f"{url} has neither SGLang's /server_info nor vLLM's /version ({status}: {text[:200]})")
    version = await asyncio.to_thread(fetch, "GET", f"{url}/version")
    model = await _model(url)
    reader = VLLM_KIND.reader(url)
    try:
        capacity = (await asyncio.to_thread(reader.read, READ_S)).capacity_tokens
        name = f"{VLLM_KIND.title} {version['version']}"
    except (LookupError, TypeError, EngineReadError) as error:
        raise EngineError(f"{url} does not describe itself as vLLM does: {error!r}") from None
    finally:
        reader.close()
    _, metrics = await asyncio.to_thread(call, "GET", f"{url}/metrics")
    block = re.search(r'block_size="(\d+)"', metrics)
    scheduling = {
        "max_total_tokens": capacity,
        "context_length": model.get("max_model_len"),
        "page_size": int(block[1]) if block else None,
    }
    about = {"url": url, "name": name, "model": model["id"], "scheduling": scheduling, "kind": VLLM_KIND}
    return Engine(**{**about, **more})


async def _model(url: str) -> Mapping[str, Any]:
    models = await asyncio.to_thread(fetch, "GET", f"{url}/v1/models")
    try:
        model: dict[str, Any] = models["data"][0]
        return {**model, "id": str(model["id"])}
    except (LookupError, TypeError):
        raise EngineError(f"{url}/v1/models names no model: {str(models)[:300]}") from None
