"""What stands between the clients and the engine."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.engines.process import Server, free_port, serve
from benchmarks.engines.wire import EngineError, call

__all__ = ["ARMS", "DIRECT", "PEER", "Arm", "find_program", "gateway_command", "served", "stub_engine"]

DIRECT: Final = "direct"
PEER: Final = "peer"
START_S: Final = 60.0
"""A second or two; the rest is for a machine that is busy with something else."""
STOP_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Arm:
    """One way from the clients to the engine."""

    key: str
    title: str
    names_agents: bool
    """Whether requests say which agent they are of."""
    command: Callable[[str, int, Path], Sequence[str]] | None
    """Of the engine's address, a port to listen on and a folder to write to. None for no proxy at all."""


def find_program(name: str) -> str:
    """Its path.

    Raises:
        FileNotFoundError: it is not installed; says how to.
    """
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        package = {"nginx": "nginx-light"}.get(name, name)
        raise FileNotFoundError(f"{name} is not installed: apt-get install {package}")
    return path


def gateway_command(engine: str, port: int, *more: str) -> list[str]:
    """``concur gateway`` as a user starts it."""
    return [sys.executable, "-m", "concur_agents.cli", "gateway", "--engine", engine, "--port", str(port), *more]


def _gateway(engine: str, port: int, _: Path) -> list[str]:
    return gateway_command(engine, port)


def _peer(engine: str, port: int, _: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.gateway.peer", str(port), engine]


def _nginx(engine: str, port: int, folder: Path) -> list[str]:
    """One worker, as everything else here is one process; bodies stay in memory, replies pass as they come."""
    config = folder / "nginx.conf"
    temporary = "\n".join(
        f"  {kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config.write_text(f"""\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 8192; }}
http {{
  access_log off;
{temporary}
  client_body_buffer_size 1m;
  client_max_body_size 64m;
  keepalive_requests 10000000;
  upstream engine {{
    server {engine.removeprefix("http://")};
    keepalive 2048;
    keepalive_requests 10000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
    }}
  }}
}}
""")
    return [find_program("nginx"), "-p", str(folder), "-c", str(config)]


ARMS: Final = (
    Arm(DIRECT, "direct", names_agents=True, command=None),
    Arm("nginx", "nginx", names_agents=True, command=_nginx),
    Arm("ids", "`concur gateway`, ids in `X-Session-ID`", names_agents=True, command=_gateway),
    Arm("prefix", "`concur gateway`, nothing said", names_agents=False, command=_gateway),
    Arm(PEER, "stand-in for ThunderAgent's design", names_agents=True, command=_peer),
)


@contextlib.asynccontextmanager
async def stub_engine(folder: Path) -> AsyncIterator[tuple[str, Server]]:
    """The engine that costs nothing, in a process of its own: its address, and the process."""
    port = free_port()
    async with served([sys.executable, "-m", "benchmarks.gateway.stub", str(port)], port, folder / "stub.log") as it:
        yield f"http://127.0.0.1:{port}", it


@contextlib.asynccontextmanager
async def served(command: Sequence[str], port: int, log: Path) -> AsyncIterator[Server]:
    """A server that answers on ``port`` until the block is left.

    Raises:
        EngineError: it cannot be started; with the end of its log.
    """
    # A user's own configuration of a controller is not what is measured.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CONCUR_")}
    async with serve(
        command, environment=environment, log=log, ready=lambda: _answers(port), start_s=START_S, stop_s=STOP_S
    ) as server:
        yield server


def _answers(port: int) -> bool:
    """Whatever it is: a socket may listen long before somebody answers."""
    try:
        call("GET", f"http://127.0.0.1:{port}/health", timeout_s=5)
    except EngineError:
        return False
    return True
