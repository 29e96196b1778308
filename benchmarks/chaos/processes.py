"""Servers and clients of one run: processes that are started, killed, frozen and started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

__all__ = ["Service", "free_ports", "freeze", "spawn"]

_POLL_S = 0.02
_PORTS = range(10_240, 32_000)
"""Below those that Linux gives to outgoing connections: a client that tries a port on which nobody listens may else be
given that very port, connect to itself, and keep the server from coming back."""


def free_ports(count: int) -> list[int]:
    """Ports on which nobody listens."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in found:
                found.append(port)
    return found


def spawn(arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a Python module; what it prints is added to ``log``. It ends with the session of the run at the latest."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CONCUR_")}
    with log.open("ab") as stream:
        return subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-m", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )


async def freeze(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Stop it for so long."""
    process.send_signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        process.send_signal(signal.SIGCONT)


class Service:
    """A server that is kept alive through its faults, on one port.

    Args:
        arguments: the module to run and what it is given; ``{life}`` is replaced by how often it was started before.
        port: where it listens.
        log: file for what it prints, in all its lives.
    """

    def __init__(self, arguments: Sequence[str], port: int, log: Path) -> None:
        self._arguments = arguments
        self._log = log
        self.port = port
        self.deaths: list[float] = []
        """When each life ended that has."""
        self.births: list[float] = []
        """When each life began."""
        self.process = self._start()

    @property
    def url(self) -> str:
        """Base URL."""
        return f"http://127.0.0.1:{self.port}"

    async def ready(self, within_s: float) -> None:
        """Return when it takes connections.

        Raises:
            TimeoutError: it does not in that time, or has ended.
        """
        async with asyncio.timeout(within_s):
            while True:
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                    return
                if self.process.poll() is not None:
                    raise TimeoutError(f"a server ended with {self.process.returncode} instead of listening")
                await asyncio.sleep(_POLL_S)

    async def restart(self, number: signal.Signals, after_s: float) -> None:
        """End it by a signal, and start it again some time after its end."""
        process = self.process
        process.send_signal(number)
        await self.ended()
        died = time.monotonic()
        await asyncio.sleep(after_s)
        if self.process is process:  # else another fault has restarted it
            self.deaths.append(died)
            self.process = self._start()

    async def ended(self) -> int:
        """Its exit status, once it has one."""
        process = self.process
        while process.poll() is None:  # noqa: ASYNC110 - processes set no Event
            await asyncio.sleep(_POLL_S)
        return process.returncode

    def abort(self) -> None:
        """End it; where its threads were is in its log then."""
        self.process.send_signal(signal.SIGABRT)

    def _start(self) -> subprocess.Popen[bytes]:
        self.births.append(time.monotonic())
        return spawn([each.replace("{life}", str(len(self.deaths))) for each in self._arguments], self._log)
