"""Any arm, with something it would know kept from it: what it is worth where an engine or a client says less."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType

from benchmarks.lab.arms.base import Arm, Scene
from benchmarks.lab.gate import Gate, GateRun, GateStep
from concur_agents import EngineReadError, EngineSample, TokenUsage
from concur_agents.engines import EngineReader

__all__ = ["KEPT_BACK", "blind"]

Say = Callable[[EngineSample], EngineSample]
Reply = Callable[[TokenUsage], TokenUsage]


def _no_metrics(sample: EngineSample) -> EngineSample:
    raise EngineReadError(f"the metrics of {sample.engine} are kept back")


KEPT_BACK: Mapping[str, tuple[Say, Reply]] = MappingProxyType(
    {
        "cached": (lambda said: said, lambda usage: replace(usage, cached=None)),
        "capacity": (lambda said: replace(said, capacity_tokens=None), lambda usage: usage),
        "metrics": (_no_metrics, lambda usage: usage),
        "usage": (lambda said: said, lambda _: TokenUsage()),
    }
)
"""What a reading and a reply still say, by what is kept back."""


def blind(name: str, argument: str, parse: Callable[[str], Arm]) -> Arm:
    """Any arm without what an engine may not say: ``blind:capacity:budget``; also cached, metrics, usage."""
    what, _, inner_name = argument.partition(":")
    if what not in KEPT_BACK:
        raise ValueError(f"needs one of {', '.join(KEPT_BACK)}, as in blind:capacity:budget, not {argument!r}")
    inner = parse(inner_name or "budget")
    say, reply = KEPT_BACK[what]

    def gate(scene: Scene) -> Gate:
        return _BlindGate(inner.gate(replace(scene, reader=_BlindReader(scene.reader, say))), reply)

    return Arm(name, gate, inner.flags)


class _BlindReader:
    def __init__(self, reader: EngineReader, say: Say) -> None:
        self._reader, self._say = reader, say

    def read(self, timeout: float) -> EngineSample:
        return self._say(self._reader.read(timeout))

    def close(self) -> None:
        self._reader.close()


class _BlindGate:
    def __init__(self, gate: Gate, reply: Reply) -> None:
        self._gate, self._reply = gate, reply
        self.tick, self.close = gate.tick, gate.close

    @asynccontextmanager
    async def agent(self, agent_id: str) -> AsyncIterator[GateRun]:
        async with self._gate.agent(agent_id) as run:
            yield _BlindRun(run, self._reply)


class _BlindRun:
    def __init__(self, run: GateRun, reply: Reply) -> None:
        self._run, self._reply = run, reply

    @asynccontextmanager
    async def step(self) -> AsyncIterator[GateStep]:
        async with self._run.step() as step:
            yield _BlindStep(step, self._reply)


class _BlindStep:
    def __init__(self, step: GateStep, reply: Reply) -> None:
        self._step, self._reply = step, reply

    def observe(self, usage: TokenUsage) -> None:
        self._step.observe(self._reply(usage))
