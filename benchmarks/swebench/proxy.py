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

One that the run is to start for its arm, before an engine of the run's own, says how; ``{python}`` is the benchmark's
interpreter, ``{port}`` a free port, ``{engine}`` the engine's address::

    url = "http://127.0.0.1:{port}"

    [start]
    command = ["{python}", "-m", "my_proxy", "--backend", "{engine}", "--port", "{port}"]
    ready = "/health"                                # answers 200 once the proxy works
    says = ""                                        # and then has this in it
    takes = "chats"                                  # "tokens": completions of token ids, from a front before it
"""

from __future__ import annotations

import asyncio
import os
import sys
import tomllib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchmarks.engines.kinds import Needs
from benchmarks.engines.process import Server, free_port, serve
from benchmarks.engines.wire import EngineError, call

__all__ = ["Proxy", "ProxyNeeds", "Release", "Start", "read_proxy"]

AGENT = "{agent}"
PORT = "{port}"
RELEASE_S = 10.0


class Start(BaseModel):
    """A program that is the proxy, or has it behind a front."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: tuple[str, ...] = Field(min_length=1)
    ready: str = Field(default="/v1/models", pattern="^/")
    says: str = ""
    takes: Literal["chats", "tokens"] = "chats"
    start_s: float = Field(default=300.0, gt=0)
    """Seconds until it must be ready."""
    port: int = 0
    """Where agents find it, or the front before it; chosen when the file is read."""

    @property
    def behind_front(self) -> bool:
        """Whether agents talk to a front, and only that to it."""
        return self.takes == "tokens"

    def started(self, engine: str, port: int, log: Path) -> AbstractAsyncContextManager[Server]:
        """The program, running. Raises EngineError where it does not come to run.

        Args:
            engine: address that it is to send generations to.
            port: to listen on.
            log: file for what it prints.
        """
        words = {"python": sys.executable, "engine": engine, "port": str(port)}
        command = [_replaced(word, words) for word in self.command]
        url = f"http://127.0.0.1:{port}{self.ready}"

        def ready() -> bool:
            try:
                status, text = call("GET", url, timeout_s=5.0)
            except EngineError:
                return False
            return status == 200 and self.says in text

        return serve(command, environment=os.environ, log=log, ready=ready, start_s=self.start_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyNeeds(Needs):
    """An engine with a program before it, both started for the arm."""

    proxy: Start


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
    start: Start | None = None
    """None where it runs already."""

    @property
    def needs(self) -> Needs:
        """What the run has to start."""
        return Needs() if self.start is None else ProxyNeeds(proxy=self.start)

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
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        if isinstance(data.get("start"), dict):
            if PORT not in str(data.get("url")):
                raise ValueError(f"{path}: url: must have {PORT} in it, where the proxy is started for the run")
            data["start"]["port"] = port = free_port()
            data["url"] = data["url"].replace(PORT, str(port))
        return Proxy.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"cannot read {path}: {error}") from None


def _replaced(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word


def _filled(data: Mapping[str, Any], agent_id: str) -> dict[str, Any]:
    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(AGENT, agent_id)
        if isinstance(value, dict):
            return {name: fill(inner) for name, inner in value.items()}
        return [fill(inner) for inner in value] if isinstance(value, list) else value

    return {name: fill(value) for name, value in data.items()}
