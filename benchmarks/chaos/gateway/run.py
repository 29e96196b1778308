"""One run of the gateway."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.chaos.gateway.plan import Plan
from benchmarks.chaos.kinds import Kind
from benchmarks.chaos.plan import Fault
from benchmarks.chaos.processes import Service, free_ports, spawn
from benchmarks.chaos.running import Run

__all__ = ["GatewayRun"]

IDLE_AFTER_S = 1.2
"""Of the gateway: agents that say nothing have ended."""
CLEAN_S = IDLE_AFTER_S + 30.0


class GatewayRun(Run):
    """Clients, the gateway, and the engine behind it."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        engine, self._port = free_ports(2)
        self._gateway_plan = plan
        super().__init__(Kind.GATEWAY, plan, folder, engine, "gateway")

    async def begin(self) -> None:
        """Start the gateway, and the clients."""
        plan, folder = self._gateway_plan, self.folder
        self.server = Service(
            [
                *("concur_agents.cli", "gateway", "--engine", self.engine.url, "--port", str(self._port)),
                *("--law", plan.law, "--config", str(folder / "concur.yaml")),
                *("--idle-after", str(IDLE_AFTER_S), "--engine-wait", str(plan.engine_wait_s), "--grace", "1"),
            ],
            self._port,
            folder / "gateway.log",
        )
        self.processes += [
            spawn(
                [
                    "benchmarks.chaos.gateway.client",
                    *("--seed", str(plan.seed), "--client", str(number), "--url", self.server.url),
                    *("--notes", str(folder / f"client-{number}.jsonl")),
                ],
                folder / f"client-{number}.log",
            )
            for number in range(len(plan.clients))
        ]

    def faults(self) -> dict[str, Callable[[Fault], Awaitable[object]]]:
        """None but those of all runs."""
        return {}

    async def clean(self) -> None:
        """The gateway knows nobody, and holds nothing."""
        await self.until_empty(self._left, CLEAN_S)

    async def seen(self) -> str:
        """What the gateway says of itself."""
        return await self.said("/concur/v1/status", "/concur/v1/agents")

    async def _left(self) -> dict[str, Any]:
        """What of its status should be 0 when nobody is left, and is not."""
        status = await self.get(self.server.url, "/concur/v1/status")
        left = {name: status[name] for name in ("agents", "requests", "held_bytes") if status[name]}
        for engine in status["engines"]:
            for name in ("agents", "generating", "in_tool", "parked", "waiting"):
                if engine[name]:
                    left[f"engine's {name}"] = engine[name]
        return left
