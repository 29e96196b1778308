"""An emulator with a front before it, each on a socket of its own."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn

from benchmarks.front.app import create_app
from concur_agents.emulator import Emulator, ServiceConfig

Serve = Callable[[Any], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves an ASGI application in a thread until the test is over; gives its URL."""
    with contextlib.ExitStack() as stack:

        def serve(app: Any) -> str:
            listener = socket.create_server(("127.0.0.1", 0))
            stack.callback(listener.close)
            config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
            server = uvicorn.Server(config)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()

            def stop() -> None:
                server.should_exit = True
                thread.join()

            stack.callback(stop)
            return f"http://127.0.0.1:{listener.getsockname()[1]}"

        yield serve


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    with Emulator(ServiceConfig(speedup=1000)) as emulator:
        yield emulator


@pytest.fixture
def front(emulator: Emulator, serve: Serve) -> str:
    """URL of a front before the emulator: tokens of 4 characters."""
    return serve(create_app(emulator.url))
