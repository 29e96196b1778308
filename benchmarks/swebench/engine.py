"""The engine a run talks to: the emulator in a process of its own, or one that runs already."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from benchmarks.swebench.config import RunConfig

__all__ = ["Engine", "EngineError", "open_engine"]

START_TIMEOUT_S = 60.0
"""The emulator is up in one or two seconds; the rest is for a machine that is busy with something else."""
REAP_TIMEOUT_S = 1.0
"""How long after an engine's silence its end may be heard."""
STOP_TIMEOUT_S = 5.0
CALL_TIMEOUT_S = 30.0
FLUSH_TRIES = 50
"""A flush is refused while a request runs; the last one may need a moment to be gone."""


class EngineError(Exception):
    """The engine cannot be started, reached or prepared. The message says what to do."""


@dataclass(slots=True)
class Engine:
    """What a run needs of an engine, besides its chat completions."""

    url: str
    """Without a trailing slash and without ``/v1``."""
    model: str
    pid: int | None = None
    """Of the embedded engine."""

    async def register(
        self, session_id: str, replies: Sequence[Mapping[str, Any]], *, match: str | None = None
    ) -> bool:
        """Have the session's generations answered with ``replies``, in order.

        ``match`` finds the session of requests that name none, by a text in their first user message. Returns False
        when the engine plays no scripts (only the emulator does). Raises EngineError.
        """
        body = json.dumps({"session_id": session_id, "replies": list(replies), "match": match}).encode()
        status, text = await self._call("POST", "/emulator/scripts", body)
        if status == 404:
            return False
        if status != 200:
            raise EngineError(f"{self.url}/emulator/scripts answered {status}: {text[:300]}")
        return True

    async def flush(self) -> None:
        """Empty the prefix cache. Raises EngineError when the engine does not do that."""
        for _ in range(FLUSH_TRIES):
            status, text = await self._call("POST", "/flush_cache")
            if status == 200:
                return
            if status == 404:
                break
            await asyncio.sleep(0.1)
        raise EngineError(f"{self.url}/flush_cache answered {status}, so arms would share a cache: {text[:300]}")

    async def capacity_tokens(self) -> int | None:
        """Size of the KV pool; None when the engine does not say."""
        status, text = await self._call("GET", "/server_info")
        with contextlib.suppress(ValueError, AttributeError):
            size = json.loads(text).get("max_total_num_tokens") if status == 200 else None
            return int(size) if size else None
        return None

    def cpu_s(self) -> float | None:
        """CPU seconds the embedded engine has used so far; None for an engine elsewhere."""
        if self.pid is None:
            return None
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def _call(self, method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
        return await asyncio.to_thread(_call, method, self.url + path, body)


def _call(method: str, url: str, body: bytes | None = None) -> tuple[int, str]:
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if key := os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    try:
        reply = urllib3.request(method, url, body=body, headers=headers, timeout=CALL_TIMEOUT_S, retries=False)
    except urllib3.exceptions.HTTPError as error:
        raise EngineError(f"no engine answers at {url}: {error}. Is it running, and is the URL right?") from None
    return reply.status, reply.data.decode(errors="replace")


@contextlib.asynccontextmanager
async def open_engine(config: RunConfig, log: Path) -> AsyncIterator[Engine]:
    """The run's engine, with an empty cache. One that is started here has ended when the block is left.

    Args:
        config: which engine.
        log: file for what the embedded engine prints.

    Raises:
        EngineError: it cannot be started or reached.
    """
    if not config.embedded:
        url = config.engine.rstrip("/").removesuffix("/v1")
        engine = Engine(url, await _model(url))
        await engine.flush()
        yield engine
        return
    async with _emulator(config, log) as (url, pid):
        yield Engine(url, await _model(url), pid)


async def _model(url: str) -> str:
    status, text = await asyncio.to_thread(_call, "GET", f"{url}/v1/models")
    try:
        return str(json.loads(text)["data"][0]["id"])
    except (ValueError, LookupError, TypeError):
        raise EngineError(f"{url}/v1/models answered {status} and names no model: {text[:300]}") from None


@contextlib.asynccontextmanager
async def _emulator(config: RunConfig, log: Path) -> AsyncIterator[tuple[str, int]]:
    with log.open("ab") as stream:
        process = await asyncio.create_subprocess_exec(
            *_command(config),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=stream,
            start_new_session=True,  # Ctrl-C is for the run, which then ends the engine in its own time
        )
        drain = None
        try:
            stdout: Any = process.stdout  # a pipe was asked for, so it is there
            url = await _announced(stdout, stream, log)
            drain = asyncio.create_task(_copy(stdout, stream))
            try:
                yield url, process.pid
            except EngineError as error:
                # A connection is refused some moments before the loop hears that the process has ended.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(REAP_TIMEOUT_S):
                        await process.wait()
                if process.returncode is None:
                    raise
                raise EngineError(f"the embedded engine ended in the middle of the run; see {log}") from error
        finally:
            await _stop(process)
            if drain is not None:
                await drain


def _command(config: RunConfig) -> list[str]:
    command = [sys.executable, "-m", "concur_agents.cli", "emulate", "--port", "0", "--preset", config.preset]
    command += ["--speedup", f"{config.speedup:g}", "--max-total-tokens", str(config.pool_tokens)]
    if setpriv := shutil.which("setpriv"):  # a run killed with SIGKILL leaves no engine behind
        command = [setpriv, "--pdeathsig", "KILL", "--", *command]
    return command


async def _announced(stdout: asyncio.StreamReader, stream: Any, log: Path) -> str:
    """The URL the emulator prints once it listens."""
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while line := await stdout.readline():
                stream.write(line)
                stream.flush()
                if found := re.search(rb"https?://[\w.\[\]:-]+", line):
                    return found[0].decode()
    except TimeoutError:
        raise EngineError(f"the embedded engine did not start within {START_TIMEOUT_S:g} s; see {log}") from None
    raise EngineError(f"the embedded engine ended at once: {await asyncio.to_thread(_last_line, log)} (see {log})")


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


async def _copy(stdout: asyncio.StreamReader, stream: Any) -> None:
    """Keep the pipe empty: an engine that prints must never wait for us."""
    while chunk := await stdout.read(65536):
        stream.write(chunk)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End the engine's whole process group, gently first. Returns only when it is gone, also when cancelled."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except (TimeoutError, asyncio.CancelledError) as stopped:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(process.wait())
        if isinstance(stopped, asyncio.CancelledError):
            raise
