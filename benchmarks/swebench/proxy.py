"""A proxy that agents talk to in place of the engine, to be measured beside Concur's laws: ``--arms proxy:FILE``.

The file says how it knows an agent, and how it is told that one has ended; ``{agent}`` stands for the agent's id::

    url = "http://127.0.0.1:8000"
    headers = { x-dynamo-session-id = "{agent}" }    # sent with each request
    body = { program_id = "{agent}" }                # put into each request's JSON

    [release]                                        # sent when an agent has ended; leave it out where there is none
    method = "POST"
    path = "/programs/release"
    body = { program_id = "{agent}" }

The metrics, and what is flushed between arms, are still those of the run's engine, which the proxy must stand before.
"""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchmarks.engines.wire import EngineError, call

__all__ = ["Proxy", "Release", "read_proxy"]

AGENT = "{agent}"
RELEASE_S = 10.0


class Release(BaseModel):
    """The request that tells of an agent's end."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(pattern="^/")
    method: str = "POST"
    headers: dict[str, str] = Field(default_factory=dict)
    body: dict[str, Any] | None = None


class Proxy(BaseModel):
    """What stands before the engine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(pattern="^https?://")
    """Without ``/v1``."""
    headers: dict[str, str] = Field(default_factory=dict)
    body: dict[str, Any] = Field(default_factory=dict)
    release: Release | None = None

    def headers_of(self, agent_id: str) -> dict[str, str]:
        """What goes with each of the agent's requests."""
        return {name: value.replace(AGENT, agent_id) for name, value in self.headers.items()}

    def body_of(self, agent_id: str) -> dict[str, Any]:
        """What goes into each of the agent's requests."""
        return _filled(self.body, agent_id)

    async def ended(self, agent_id: str) -> None:
        """Tell the proxy. Raises EngineError when it does not take it."""
        release = self.release
        if release is None:
            return
        url = f"{self.url.rstrip('/')}{release.path.replace(AGENT, agent_id)}"
        headers = {name: value.replace(AGENT, agent_id) for name, value in release.headers.items()}
        body = None if release.body is None else _filled(release.body, agent_id)
        status, text = await asyncio.to_thread(call, release.method, url, body, headers=headers, timeout_s=RELEASE_S)
        if status >= 400:
            raise EngineError(f"{url} answered {status}: {text[:300]}")


def read_proxy(path: Path) -> Proxy:
    """A proxy as its file says it. Raises ValueError that names the file, and the field where there is one."""
    try:
        return Proxy.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"cannot read {path}: {error}") from None


def _filled(data: Mapping[str, Any], agent_id: str) -> dict[str, Any]:
    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(AGENT, agent_id)
        if isinstance(value, dict):
            return {name: fill(inner) for name, inner in value.items()}
        return [fill(inner) for inner in value] if isinstance(value, list) else value

    return {name: fill(value) for name, value in data.items()}
