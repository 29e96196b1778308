"""``python -m benchmarks.chaos.shared.worker``: a process of agents that share a controller with those of others.

Exit status 0: all agents have done all steps. 1: Concur failed one, or it got a reply that is not its own.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
from pathlib import Path
from typing import Any

import httpx

from benchmarks.chaos.asking import LONGEST_BACKOFF_S, AgainError, Whose, ask
from benchmarks.chaos.plan import SHARED_PROMPT, StepPlan
from benchmarks.chaos.shared.notes import Notebook
from benchmarks.chaos.shared.plan import PATIENCE_S, AgentPlan, draw_plan
from benchmarks.chaos.words import said
from concur_agents import Controller
from concur_agents.agents import Agent
from concur_agents.remote import RemoteController

__all__: list[str] = []

_PATIENT_FROM = 3
"""Tries after which a timeout doubles with each: a slow machine must not keep an agent from ever being through."""
_LONGEST_TIMEOUT_S = 30.0
_POLL_S = 0.02


class _Agent:
    """One agent's life."""

    def __init__(self, seed: int, plan: AgentPlan, concur: RemoteController, engine: str, notes: Notebook) -> None:
        self._plan = plan
        self._concur = concur
        self._notes = notes
        self._words = f"{seed} {plan.name}"
        self._random = random.Random(self._words)
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": SHARED_PROMPT}]
        self._engine = engine
        self._subs = [(after, _Agent(seed, each, concur, engine, notes)) for after, each in plan.subs]
        self._attempt = 0

    async def live(self) -> None:
        """All steps, in this loop or in one of its own."""
        if self._plan.own_loop:
            await asyncio.to_thread(lambda: asyncio.run(self._live()))
        else:
            await self._live()

    async def _live(self) -> None:
        plan = self._plan
        await asyncio.sleep(plan.starts_s)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with (
            httpx.AsyncClient(base_url=self._engine, limits=limits, trust_env=False) as http,
            self._concur.agent(plan.agent_id) as agent,
        ):
            for number, step in enumerate(plan.steps):
                self._messages.append({"role": "user", "content": said(f"{self._words} {number}", step.said)})
                content = await self._until_done(agent, http, number, step)
                self._messages.append({"role": "assistant", "content": content})
                if number in plan.parks_after:
                    agent.park()
                await asyncio.gather(*(sub.live() for after, sub in self._subs if after == number))
                await asyncio.sleep(step.tool_s)
        self._notes.of_agent(plan.name, "end")

    async def _until_done(self, agent: Agent, http: httpx.AsyncClient, number: int, step: StepPlan) -> str:
        self._attempt = 0
        waits_s = self._plan.waits_s
        while True:
            try:
                async with asyncio.timeout(waits_s) as limit, agent.step() as seated:
                    if not limit.expired():
                        limit.reschedule(None)
                    self._notes.of_agent(self._plan.name, "seated")
                    content, usage = await self._answer(http, number, step)
                    seated.observe(usage)
                    self._notes.of_agent(
                        self._plan.name, "done", step=number, attempt=self._attempt, prompt=usage["prompt_tokens"]
                    )
                    return content
            except TimeoutError:
                waits_s = (waits_s or 0.0) * 2
            except (httpx.TransportError, AgainError):
                await self._back_off()

    async def _answer(self, http: httpx.AsyncClient, number: int, step: StepPlan) -> tuple[str, dict[str, Any]]:
        while True:
            self._notes.of_agent(self._plan.name, "begun", step=number, attempt=self._attempt)
            timeout_s = self._plan.timeout_s * 2.0 ** max(0, self._attempt - _PATIENT_FROM)
            try:
                return await ask(
                    http,
                    Whose(self._plan.name, number, self._attempt),
                    self._messages,
                    step,
                    streams=self._plan.streams,
                    timeout_s=min(timeout_s, _LONGEST_TIMEOUT_S),
                )
            except (httpx.TransportError, AgainError) as error:
                self._notes.of_agent(
                    self._plan.name, f"{type(error).__name__}: {error}", step=number, attempt=self._attempt
                )
                self._attempt += 1
                if not self._plan.inside:
                    raise
                await self._back_off()

    async def _back_off(self) -> None:
        await asyncio.sleep(min(LONGEST_BACKOFF_S, 0.05 * 2.0**self._attempt) * (0.5 + self._random.random() / 2))


async def _run(seed: int, worker: int, url: str, engine: str, notes: Notebook, go: Path) -> None:
    while not go.exists():  # noqa: ASYNC110, ASYNC240 - it is made by another process
        await asyncio.sleep(_POLL_S)
    concur = Controller.connect(url, patience_s=PATIENCE_S)
    async with concur, asyncio.TaskGroup() as agents:
        for plan in draw_plan(seed).workers[worker].agents:
            agents.create_task(_Agent(seed, plan, concur, engine, notes).live())


def _main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--worker", type=int, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--notes", type=Path, required=True)
    parser.add_argument("--go", type=Path, required=True, help="Begin when this file is there.")
    given = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    with Notebook(given.notes) as notes:
        logging.getLogger("concur_agents.remote").addHandler(notes.link_handler())
        asyncio.run(_run(given.seed, given.worker, given.url, given.engine, notes, given.go))
    return 0


if __name__ == "__main__":
    sys.exit(_main())
