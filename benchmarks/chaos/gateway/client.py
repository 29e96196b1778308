"""``python -m benchmarks.chaos.gateway.client``: a client process of a run; its agents try until they are through.

Exit status 0: all agents have finished all steps. 1: an agent was refused, or got a reply that is not its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from pathlib import Path
from typing import Any, TextIO

import httpx

from benchmarks.chaos.asking import LONGEST_BACKOFF_S, AgainError, Whose, ask
from benchmarks.chaos.gateway.plan import AgentPlan, ClientPlan, draw_plan
from benchmarks.chaos.plan import SHARED_PROMPT, StepPlan
from benchmarks.chaos.words import said

__all__: list[str] = []

_SDK_TRIES = 3
_LONGEST_ADVICE_S = 1.0
"""Of a Retry-After: runs are short."""
_PATIENT_FROM = 6
"""Tries after which a client's timeout doubles with each: a slow machine must not keep it from ever being through."""
_PATIENT_S = 30.0


class _Agent:
    """One agent's life."""

    def __init__(self, seed: int, client: ClientPlan, plan: AgentPlan, http: httpx.AsyncClient, notes: TextIO) -> None:
        self._client = client
        self._plan = plan
        self._http = http
        self._notes = notes
        self._words = f"{seed} {plan.name}"
        self._random = random.Random(self._words)
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": SHARED_PROMPT}]
        self._id = f"chaos {seed}/{plan.name}".replace(" ", "-")

    async def live(self) -> None:
        """All steps, and the end."""
        await asyncio.sleep(self._plan.starts_s)
        for number, step in enumerate(self._plan.steps):
            words = f"task {self._plan.task}" if number == 0 else f"{self._words} {number}"
            self._messages.append({"role": "user", "content": said(words, step.said)})
            content = await self._until_answered(number, step)
            self._messages.append({"role": "assistant", "content": content})
            await asyncio.sleep(step.tool_s)
        if self._client.named and self._plan.ends == "delete":
            await self._delete()

    async def _until_answered(self, number: int, step: StepPlan) -> str:
        attempt = 0
        while True:
            timeout = self._client.timeout_s * 2.0 ** max(0, attempt - _PATIENT_FROM)
            try:
                content = await self._ask(number, step, attempt, min(timeout, max(_PATIENT_S, self._client.timeout_s)))
            except (httpx.TransportError, AgainError) as error:
                self._note(number, attempt, f"{type(error).__name__}: {error}")
                advice = error.after_s if isinstance(error, AgainError) else 0.0
                backoff = min(LONGEST_BACKOFF_S, 0.05 * 2.0**attempt) * (0.5 + self._random.random() / 2)
                await asyncio.sleep(max(backoff, min(advice, _LONGEST_ADVICE_S)))
                attempt += 1
            else:
                self._note(number, attempt, "done")
                return content

    async def _ask(self, number: int, step: StepPlan, attempt: int, timeout_s: float) -> str:
        content, _ = await ask(
            self._http,
            Whose(self._plan.name, number, attempt),
            self._messages,
            step,
            streams=self._plan.streams,
            timeout_s=timeout_s,
            headers=self._headers(attempt, timeout_s, last=number == len(self._plan.steps) - 1),
        )
        return content

    def _headers(self, attempt: int, timeout_s: float, *, last: bool) -> dict[str, str]:
        headers = {}
        if self._client.named:
            headers["X-Session-ID"] = self._id
        if self._client.announces:
            headers["x-stainless-read-timeout"] = str(timeout_s)
            headers["x-stainless-retry-count"] = str(attempt % _SDK_TRIES)
        if last and self._plan.ends == "final":
            headers["x-session-final"] = "true"
        return headers

    async def _delete(self) -> None:
        for _ in range(20):  # it would end by itself
            with contextlib.suppress(httpx.TransportError):
                if (await self._http.delete(f"/concur/v1/agents/{self._id}", timeout=2)).status_code == httpx.codes.OK:
                    return
            await asyncio.sleep(0.2)

    def _note(self, number: int, attempt: int, what: str) -> None:
        note = {"at_s": time.monotonic(), "agent": self._plan.name, "step": number, "attempt": attempt, "what": what}
        self._notes.write(json.dumps(note) + "\n")


async def _run(seed: int, client: ClientPlan, url: str, notes: TextIO) -> None:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=url, limits=limits, trust_env=False) as http, asyncio.TaskGroup() as agents:
        for plan in client.agents:
            agents.create_task(_Agent(seed, client, plan, http, notes).live())


def _main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--client", type=int, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--notes", type=Path, required=True)
    given = parser.parse_args()
    client = draw_plan(given.seed).clients[given.client]
    with given.notes.open("a", buffering=1) as notes:
        asyncio.run(_run(given.seed, client, given.url, notes))
    return 0


if __name__ == "__main__":
    sys.exit(_main())
