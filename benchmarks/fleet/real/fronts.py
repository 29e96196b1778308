"""What stands between the agents and the servers: one address for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from benchmarks.engines.process import free_port
from benchmarks.gateway.arms import find_program, gateway_command, served
from benchmarks.lab.real.client import REQUEST_TIMEOUT_S

__all__ = ["AGENT_HEADER", "FINAL_HEADER", "FRONTS", "GATEWAY", "PLAIN", "Front", "Running", "get_fronts", "opened"]

PLAIN: Final = "front"
GATEWAY: Final = "gateway"
AGENT_HEADER: Final = "X-Session-ID"
FINAL_HEADER: Final = "X-Session-Final"
HASHED: Final = "hash $http_x_session_id consistent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """One way from the agents to the servers."""

    name: str
    about: str
    """For the notes under a table."""
    command: Callable[[Sequence[str], int, Path], Sequence[str]]
    """Of the servers' addresses, a port to listen on and a folder to write to."""


@dataclass(frozen=True, slots=True)
class Running:
    """A front that has been started."""

    url: str
    session: int
    """Its process session."""


def _nginx(choice: str) -> Callable[[Sequence[str], int, Path], Sequence[str]]:
    """A usual load balancer that gives each request to a server by ``choice``.

    It never gives up on a request before its client does, and sends none twice. Each request has a connection of its
    own to the server: one that is kept may be closed there just when it is used again, and an agent is lost.
    """

    def command(engines: Sequence[str], port: int, folder: Path) -> Sequence[str]:
        servers = "\n".join(f"    server {url.removeprefix('http://')} max_fails=0;" for url in engines)
        temporary = "\n".join(
            f"  {kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        config = folder / "nginx.conf"
        config.write_text(f"""\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
{temporary}
  client_body_buffer_size 1m;
  client_max_body_size 64m;
  upstream engines {{
    {choice};
{servers}
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://engines;
      proxy_next_upstream off;
      proxy_read_timeout {REQUEST_TIMEOUT_S:g}s;
    }}
  }}
}}
""")
        return [find_program("nginx"), "-p", str(folder), "-c", str(config)]

    return command


def _gateway(engines: Sequence[str], port: int, _: Path) -> Sequence[str]:
    first, *others = engines
    return gateway_command(first, port, *(part for url in others for part in ("--engine", url)))


FRONTS: Mapping[str, Front] = MappingProxyType(
    {
        front.name: front
        for front in (
            Front(
                name=PLAIN,
                about="nginx, each request at once to the server with the fewest in flight (`least_conn`)",
                command=_nginx("least_conn"),
            ),
            Front(
                name="sticky",
                about=f"nginx, an agent always to the same server (`{HASHED}`)",
                command=_nginx(HASHED),
            ),
            Front(name=GATEWAY, about="`concur gateway --engine A --engine B`", command=_gateway),
        )
    }
)
"""By name, for ``--arms``."""


def get_fronts(names: Sequence[str]) -> tuple[Front, ...]:
    """Fronts by name.

    Raises:
        ValueError: an unknown name, naming those there are, or one that is given twice, or none at all.
    """
    if unknown := [name for name in names if name not in FRONTS]:
        raise ValueError(f"arm must be one of {', '.join(FRONTS)}, got {unknown[0]!r}")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"name each arm once, as in --arms {','.join(FRONTS)}")
    return tuple(FRONTS[name] for name in names)


@contextlib.asynccontextmanager
async def opened(front: Front, engines: Sequence[str], folder: Path) -> AsyncIterator[Running]:
    """The front before these servers, until the block is left.

    Args:
        front: which.
        engines: addresses of the servers.
        folder: for what it writes.

    Raises:
        EngineError: it cannot be started; with the end of its log.
        FileNotFoundError: its program is not installed.
    """
    port, home = free_port(), _made(folder)
    async with served(front.command(engines, port, home), port, home / "log") as server:
        yield Running(f"http://127.0.0.1:{port}", server.sid)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder.absolute()
