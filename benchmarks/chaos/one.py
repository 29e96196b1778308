"""``python -m benchmarks.chaos.one KIND SEED FOLDER``: one run, in a process session of its own; its result as JSON.

To be started by the command alone, which ends the session. Prints one object: ``failures`` and ``steps``.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from benchmarks.chaos.gateway.plan import draw_plan as draw_gateway
from benchmarks.chaos.gateway.run import GatewayRun
from benchmarks.chaos.kinds import Kind
from benchmarks.chaos.running import Run
from benchmarks.chaos.shared.plan import draw_plan as draw_shared
from benchmarks.chaos.shared.run import SharedRun

__all__ = ["main"]


def main(kind: Kind, seed: int, folder: Path) -> None:
    """One run, and its result on standard output."""
    run: Run = GatewayRun(draw_gateway(seed), folder) if kind is Kind.GATEWAY else SharedRun(draw_shared(seed), folder)
    asyncio.run(run.go())
    print(json.dumps({"failures": run.failures, "steps": run.steps()}))  # noqa: T201 - read by the command


if __name__ == "__main__":
    main(Kind(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
