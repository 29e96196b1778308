"""``python -m benchmarks.chaos.engine``: the emulated engine of one run, as a process of its own, behind its faults."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from benchmarks.chaos.faulty import FaultyEngine
from benchmarks.chaos.kinds import draw
from concur_agents.emulator.embed import build_server
from concur_agents.emulator.service import ServiceConfig

__all__: list[str] = []


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--metrics", type=Path, required=True)
    given = parser.parse_args()
    plan = draw(given.kind, given.seed)
    base = ServiceConfig.preset("laptop", speedup=plan.speedup)
    config = dataclasses.replace(base, engine=dataclasses.replace(base.engine, max_total_tokens=plan.pool))
    notes = given.notes.open("a", buffering=1)

    def faulty(app: Any) -> FaultyEngine:
        return FaultyEngine(app, plan, notes, given.metrics)

    server, listener, _ = build_server(config, "127.0.0.1", given.port, middleware=faulty)
    with listener, notes:
        server.run(sockets=[listener])


if __name__ == "__main__":
    _main()
