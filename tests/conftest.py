"""What several test modules share: controllers that run by hand, and event loops that run until something holds."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from concur_agents import Controller, FixedWindow
from concur_agents.engines.base import EngineReader
from concur_agents.testing import ManualClock, ScriptedReader

MakeController = Callable[..., Controller]
# How fast a machine is at the moment must not decide whether a test passes. Adapters' environments have no Hypothesis.
with contextlib.suppress(ModuleNotFoundError):
    from hypothesis import HealthCheck, settings

    settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("untimed")

Until = Callable[[Callable[[], object]], Awaitable[None]]


@pytest.fixture(scope="session", autouse=True)
def heeds_ctrl_c() -> Iterator[None]:
    """Programs in the background are started with SIGINT ignored, and hand that on to what they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def make_controller() -> Iterator[MakeController]:
    """Makes controllers without a thread and with a clock that stands; closes them all."""
    made: list[Controller] = []

    def make(window: float = 1, *, reader: EngineReader | None = None, **options: Any) -> Controller:
        settings: dict[str, Any] = {"law": FixedWindow(window), "clock": ManualClock(), "background": False} | options
        controller = Controller(reader if reader is not None else ScriptedReader(), **settings)
        made.append(controller)
        return controller

    yield make
    for controller in made:
        controller.close()


async def _until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the loop has nothing left to do, and the condition does not hold")


@pytest.fixture
def until() -> Until:
    """Let the running loop go on until a condition holds that needs no other thread and no time."""
    return _until
