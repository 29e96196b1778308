"""What one step through Concur costs: ``python -m benchmarks.overhead`` prints medians beside anyio's limiter.

Two questions: does an uncontended step stay cheap with many agents known, and is a long queue drained in order and
without a cost that grows with its length.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import anyio
from rich.console import Console
from rich.table import Table

from concur_agents import Controller, FixedWindow
from concur_agents.testing import ScriptedReader

KNOWN = 10_000
"""Agents that hold a seat and are in a tool while one of them steps."""
ROUNDS = 20_000
QUEUES = (2_500, 10_000, 40_000)
"""Waiters for one seat. A cost per waiter that does not grow over these is not quadratic."""


async def _median_us(step: Callable[[], Awaitable[None]]) -> float:
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        await step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def _controller(seats: int) -> Controller:
    return Controller(ScriptedReader(), law=FixedWindow(seats), background=False)


async def concur_step_us() -> float:
    """Median microseconds of resume and pause of one agent, with :data:`KNOWN` others seated."""
    async with _controller(KNOWN + 1) as concur:
        for number in range(KNOWN):
            await concur.admit(f"agent-{number}")
            concur.pause(f"agent-{number}")

        async def step() -> None:
            await concur.resume("agent-77")
            concur.pause("agent-77")

        return await _median_us(step)


async def concur_admit_us() -> float:
    """Median microseconds of admit, pause and finish of a new agent, with :data:`KNOWN` others seated."""
    async with _controller(2 * KNOWN) as concur:
        for number in range(KNOWN):
            await concur.admit(f"agent-{number}")
            concur.pause(f"agent-{number}")

        async def step() -> None:
            await concur.admit("new")
            concur.pause("new")
            concur.finish("new")

        return await _median_us(step)


async def anyio_step_us() -> float:
    """Median microseconds of acquire and release, with :data:`KNOWN` other borrowers."""
    limiter = anyio.CapacityLimiter(KNOWN + 1)
    for number in range(KNOWN):
        await limiter.acquire_on_behalf_of(f"agent-{number}")

    async def step() -> None:
        await limiter.acquire_on_behalf_of("agent-new")
        limiter.release_on_behalf_of("agent-new")

    return await _median_us(step)


async def concur_queue_us(waiters: int) -> tuple[float, bool]:
    """Microseconds a waiter when that many queue for one seat, and whether they were served in order."""
    served: list[int] = []
    async with _controller(1) as concur:

        async def agent(number: int) -> None:
            async with concur.agent(f"agent-{number}") as me, me.step():
                served.append(number)

        begin = time.perf_counter()
        await asyncio.gather(*map(agent, range(waiters)))
        return (time.perf_counter() - begin) / waiters * 1e6, served == list(range(waiters))


async def anyio_queue_us(waiters: int) -> tuple[float, bool]:
    """The same through ``anyio.CapacityLimiter``."""
    served: list[int] = []
    limiter = anyio.CapacityLimiter(1)

    async def agent(number: int) -> None:
        async with limiter:
            served.append(number)

    begin = time.perf_counter()
    await asyncio.gather(*map(agent, range(waiters)))
    return (time.perf_counter() - begin) / waiters * 1e6, served == list(range(waiters))


async def main() -> None:
    """Print the table."""
    table = Table(title=f"overhead, {KNOWN:,} agents known, median of {ROUNDS:,} rounds")
    for column in ("", "Concur", "anyio.CapacityLimiter"):
        table.add_column(column, justify="right" if column else "left")
    anyio_us = await anyio_step_us()
    table.add_row("uncontended step: resume, pause", f"{await concur_step_us():.1f} us", f"{anyio_us:.1f} us")
    table.add_row("new agent: admit, pause, finish", f"{await concur_admit_us():.1f} us", "")
    for waiters in QUEUES:
        cells = []
        for queue in (concur_queue_us, anyio_queue_us):
            cost, in_order = await queue(waiters)
            cells.append(f"{cost:.1f} us each, {'in order' if in_order else 'OUT OF ORDER'}")
        table.add_row(f"{waiters:,} waiters for one seat", *cells)
    Console().print(table)


if __name__ == "__main__":
    asyncio.run(main())
