"""What an agent of the benchmark does when it is placed, moved and cut off: as the gateway does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from benchmarks.fleet.site import Site
from benchmarks.lab.batch import Plan, Step
from benchmarks.lab.simulate import MOST_NEW
from concur_agents import AgentState, Outcome, TokenUsage
from concur_agents.adapters import AgentRun, ModelCall
from concur_agents.agents import keeping_current
from concur_agents.emulator import FinishReason, Request
from concur_agents.emulator.radix import TOKEN_BYTES
from concur_agents.fleet import Fleet

__all__ = ["Life", "Seen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One step that was got through."""

    agent_id: str
    site: str
    at: float
    """When it ended; seconds."""
    prompt: int
    cached: int
    output: int
    recomputed: int
    """Had been in its context, and was computed again."""
    moved: bool
    """The agent's first on this engine, after others elsewhere."""


class Life:
    """One agent.

    Args:
        plan: what it does.
        number: of the plan in its batch.
        fleet: where it is.
        sites: the engines, by name.
        now: the loop's clock.
        seen: told of every step.
    """

    def __init__(
        self,
        plan: Plan,
        number: int,
        fleet: Fleet,
        sites: dict[str, Site],
        now: Callable[[], float],
        seen: Callable[[Seen], None],
    ) -> None:
        self.agent_id = plan.agent_id
        self._plan, self._tokens = plan, plan.tokens(number)
        self._fleet, self._sites, self._now, self._seen = fleet, sites, now, seen
        self.context = 0
        self.site = sites[fleet.place(plan.agent_id)]
        self._born = now()
        self._run = self._begun()
        self.moves = 0
        self._fresh = False
        self._waits: asyncio.Task[ModelCall] | None = None
        self._called: Site | None = None

    @property
    def waits(self) -> bool:
        """Whether it waits for a seat."""
        return self._waits is not None

    def call(self, site: Site) -> None:
        """It is to wait at another engine."""
        if self._waits is not None:
            self._called = site
            self._waits.cancel()

    async def live(self) -> None:
        """All its steps."""
        try:
            for index, step in enumerate(self._plan.steps):
                if index:
                    await asyncio.sleep(self._plan.steps[index - 1].tool_s)
                while not await self._step(index, step):
                    pass  # its engine died under it
        finally:
            self._run.finish(Outcome.COMPLETED)
            self._run.__exit__(None, None, None)
            self._fleet.forget(self.agent_id)

    async def _step(self, index: int, step: Step) -> bool:
        self._go(self._sites[self._fleet.next(self.agent_id, self._now())])
        call = await self._seated()
        site = self.site
        if not site.up:
            call.end()
            return False
        split, end = step.prompt * TOKEN_BYTES, (step.prompt + step.output) * TOKEN_BYTES
        request = Request(
            f"{self.agent_id}/{index}",
            self._tokens[:split],
            self._tokens[split:end],
            max_new_tokens=max(step.output, MOST_NEW),
        )
        await site.driver.submit(request).done.wait()
        if request.finish_reason is not FinishReason.STOP:
            call.end()
            return False
        call.observe(TokenUsage(prompt=step.prompt, cached=request.cached_tokens, output=request.out))
        call.end()
        recomputed = max(0, min(self.context, step.prompt) - request.cached_tokens)
        self.context = step.prompt + step.output
        self._fleet.stepped(self.agent_id, self.context, self._now())
        self._seen(
            Seen(
                agent_id=self.agent_id,
                site=site.name,
                at=self._now(),
                prompt=step.prompt,
                cached=request.cached_tokens,
                output=request.out,
                recomputed=recomputed,
                moved=self._fresh,
            )
        )
        self._fresh = False
        return True

    async def _seated(self) -> ModelCall:
        while True:
            call = self._run.step()
            self._waits = asyncio.ensure_future(call.__aenter__())
            try:
                await self._waits
            except asyncio.CancelledError:
                if self._called is None:
                    raise
            else:
                self._called = None
                return call
            finally:
                self._waits = None
            called, self._called = self._called, None
            call.end()
            self._go(called)

    def _go(self, site: Site) -> None:
        if site is self.site:
            return
        self._fleet.move(self.agent_id, site.name, self._now())
        view = self.site.controller.view(self.agent_id)
        self._run.finish(Outcome.CANCELLED)
        self._run.__exit__(None, None, None)
        self.site = site
        self._run = self._begun()
        if view is not None:  # the other controller is to know its age, and how long its context is
            site.controller.limiter.restore([(replace(view, state=AgentState.PARKED), self._now() - self._born)])
        if self.context and not self._fresh:  # else it leaves nothing behind
            self._fresh = True
            self.moves += 1

    def _begun(self) -> AgentRun:
        run = AgentRun(self.site.controller, self.agent_id, parent=None)
        with keeping_current():
            run.__enter__()
        return run
