"""What the lab says of a batch under an arm on an engine that the emulator was fitted to: seconds, in virtual time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.lab.arms.base import Arm, Scene
from benchmarks.lab.batch import Batch
from benchmarks.lab.clock import Loop
from benchmarks.lab.engines import Engine
from benchmarks.lab.reading import VllmReader
from benchmarks.lab.real.backends import VLLM_NAME
from benchmarks.lab.real.client import EmulatorClient
from benchmarks.lab.real.play import Clock, Played, play
from benchmarks.lab.real.store import Run, Sweep
from benchmarks.real.calibrate import DecodePoint, Points, PrefillPoint
from benchmarks.real.fit import fit
from benchmarks.real.record import FitRecord
from concur_agents.emulator import CostModel, EngineConfig
from concur_agents.emulator.vllm import VllmConfig, VllmScheduler

__all__ = ["emulator_of", "fitted", "points_of", "predict", "sweep_of"]


def fitted(sweeps: Sequence[Sweep], scheduling: Mapping[str, Any]) -> FitRecord:
    """The emulator's cost model, from every calibration. Raises ValueError where there is none."""
    return fit(points_of(sweeps), scheduling)


def emulator_of(kind: str, scheduling: Mapping[str, Any], cost: CostModel) -> Engine:
    """The lab's engine of a backend's kind that schedules as the server says and takes as long as was fitted."""
    known = {name: value for name, value in scheduling.items() if value is not None}
    if kind == VLLM_NAME:
        return Engine(name="fitted", config=VllmConfig(**known), cost=cost, build=VllmScheduler, reader=VllmReader)
    return Engine(name="fitted", config=EngineConfig(**known), cost=cost)


def predict(workload: str, batch: Batch, engine: Engine, arm: Arm, *, seed: int, tick_s: float, repeat: int = 1) -> Run:
    """Run a repeat's batch on the emulator's core, with the very program that runs it on a server."""
    loop = Loop()
    try:
        played = loop.run_until_complete(_play(batch, arm.flags(engine), arm, loop, seed, tick_s))
    finally:
        loop.close()
    return run_of(played, workload=workload, arm=arm.name, repeat=repeat, kind="prediction")


def run_of(played: Played, **more: Any) -> Run:
    """What is kept of a batch that was played."""
    agents = played.agents
    return Run(
        makespan_s=played.makespan_s,
        hit_rate=sum(agent.cached_tokens for agent in agents) / max(1, sum(agent.prompt_tokens for agent in agents)),
        recomputed_tokens=sum(agent.recomputed_tokens for agent in agents),
        lost=sum(agent.lost for agent in agents),
        ended_s=tuple(round(agent.ended_s, 1) for agent in agents),
        error=played.errors[0] if played.errors else None,
        **more,
    )


async def _play(batch: Batch, engine: Engine, arm: Arm, loop: Loop, seed: int, tick_s: float) -> Played:
    scheduler = engine.scheduler()
    client = EmulatorClient(scheduler, loop.until_next)
    clock = Clock()
    gate = arm.gate(
        Scene(
            batch=batch,
            reader=engine.reader(scheduler),
            clock=clock,
            capacity_tokens=engine.config.max_total_tokens,
            tick_s=tick_s,
        )
    )
    try:
        return await play(batch, client, gate, clock, seed=seed, tick_s=tick_s)
    finally:
        gate.close()
        await client.close()


def sweep_of(points: Points) -> Sweep:
    """A calibration as it is kept."""
    return Sweep(
        prefill=tuple((point.shapes, point.seconds) for point in points.prefill),
        decode=tuple((point.sequences, point.steps, point.tokens, point.seconds) for point in points.decode),
    )


def points_of(sweeps: Sequence[Sweep]) -> Points:
    """Calibrations as they are fitted: of each pass the fastest time, since other programs can only slow it down."""
    prefill: dict[tuple[tuple[int, int], ...], float] = {}
    decode: dict[tuple[int, int, int], float] = {}
    for sweep in sweeps:
        for shapes, seconds in sweep.prefill:
            prefill[shapes] = min(seconds, prefill.get(shapes, math.inf))
        for sequences, steps, tokens, seconds in sweep.decode:
            point = sequences, steps, tokens
            decode[point] = min(seconds, decode.get(point, math.inf))
    return Points(
        prefill=[PrefillPoint(shapes=shapes, seconds=seconds) for shapes, seconds in prefill.items()],
        decode=[
            DecodePoint(sequences=sequences, steps=steps, tokens=tokens, seconds=seconds)
            for (sequences, steps, tokens), seconds in decode.items()
        ],
    )
