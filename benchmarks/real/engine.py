"""An engine as the benchmark sees it, and the emulator as one; ``sglang_cpu`` has the real one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.real.wire import EngineError, call, fetch
from concur_agents.emulator import CostModel, Emulator, EngineConfig, ServiceConfig

__all__ = ["EMULATED_NAME", "SCHEDULING", "Engine", "connect", "emulated"]

EMULATED_NAME = "emulator"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A running engine."""

    url: str
    """Without a trailing slash and without ``/v1``."""
    name: str
    """What heads its figures: the engine's name and version."""
    model: str
    scheduling: Mapping[str, Any]
    """Its values of :data:`SCHEDULING`."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What else a reader of the figures has to know: flags, the model's shape. Names no path and no host."""
    speedup: float = 1.0
    """Engine seconds in one wall second."""
    session: int | None = None
    """Process session of a server that was started here."""
    check: Callable[[], None] = field(default=lambda: None)
    """Raises EngineError, with the reason, when a server that was started here has ended."""
    flush_path: str = "/flush_cache"
    """Where a POST empties its prefix cache."""

    async def flush(self) -> None:
        """Empty the prefix cache, as soon as the engine is idle.

        Raises:
            EngineError: it does not become idle, cannot do that, or is gone.
        """
        for _ in range(FLUSH_TRIES):
            self.check()
            status, text = await asyncio.to_thread(call, "POST", f"{self.url}{self.flush_path}")
            if status == 200:
                return
            if status == 404:
                break
            await asyncio.sleep(FLUSH_EVERY_S)
        raise EngineError(f"{self.url}{self.flush_path} answered {status}, so runs would share a cache: {text[:300]}")

    async def generate(self, body: Mapping[str, Any]) -> Any:
        """What SGLang's own ``/generate`` answers. Raises EngineError."""
        self.check()
        return await asyncio.to_thread(fetch, "POST", f"{self.url}/generate", body, timeout_s=120.0)


async def connect(url: str, **more: Any) -> Engine:
    """The engine at ``url``, as it describes itself.

    Raises:
        EngineError: nobody answers there, or it is no SGLang.
    """
    url = url.rstrip("/").removesuffix("/v1")
    info = await asyncio.to_thread(fetch, "GET", f"{url}/server_info")
    models = await asyncio.to_thread(fetch, "GET", f"{url}/v1/models")
    try:
        model = str(models["data"][0]["id"])
        scheduling = {name: info.get(name) for name in SCHEDULING}
        scheduling["max_total_tokens"] = info["max_total_num_tokens"]
        version = str(info["version"])
    except (LookupError, TypeError, AttributeError) as error:
        raise EngineError(f"{url} does not describe itself as SGLang does: {error!r}") from None
    return Engine(**{"url": url, "name": f"SGLang {version}", "model": model, "scheduling": scheduling, **more})


@contextlib.asynccontextmanager
async def emulated(scheduling: Mapping[str, Any], cost: CostModel, *, speedup: float = 1.0) -> AsyncIterator[Engine]:
    """The emulator, in a thread of this process.

    Args:
        scheduling: values of :data:`SCHEDULING`; what is missing or None stays at its default.
        cost: seconds of its forward passes.
        speedup: engine seconds per wall second. > 0.

    Raises:
        ValueError: a value that the emulator refuses.
    """
    known = {name: value for name, value in scheduling.items() if value is not None}
    config = ServiceConfig(engine=EngineConfig(**known), cost=cost, model="words", speedup=speedup)
    with Emulator(config) as emulator:
        yield await connect(emulator.url, name=EMULATED_NAME, speedup=speedup)
