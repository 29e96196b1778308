"""Engines of a fixed window each, and desks in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from concur_agents import Controller, FixedWindow
from concur_agents.remote.desk import Desk
from concur_agents.remote.protocol import UnreachableError
from concur_agents.remote.seats import RemoteSeats
from concur_agents.testing import ScriptedReader


class Local:
    """A transport to a desk in the same loop; and the line to it can be cut."""

    def __init__(self, window: float) -> None:
        self.controller = Controller(ScriptedReader(), law=FixedWindow(window), background=False).start()
        self.desk = Desk(self.controller)
        self.cut = False

    async def call(self, operation: str, body: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        if self.cut:
            raise UnreachableError("cut")
        try:
            async with asyncio.timeout(timeout_s):
                return await self.desk.handle(operation, body)
        except TimeoutError:
            raise UnreachableError("no answer in time") from None

    async def aclose(self) -> None:
        pass

    def seats(self) -> RemoteSeats:
        return RemoteSeats(lambda: self, "here", patience_s=5.0)


@pytest.fixture
def local() -> type[Local]:
    return Local
