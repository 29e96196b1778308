"""What an arm runs in and must not share with another: engine, scripts, workspaces and sandboxes, all warmed up."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.swebench.agents import AgentPlan, Recorder, find_framework, run_agent
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.engine import Engine, open_engine
from benchmarks.swebench.replay import Script
from benchmarks.swebench.sandbox import Sandbox, Sandboxes
from benchmarks.swebench.solver import SolverConfig, scripted_replies
from concur_agents import Controller, Uncontrolled
from concur_agents.engines import SGLang

__all__ = ["Setting", "open_setting"]

SOLVER = SolverConfig(median_output_tokens=18, p90_output_tokens=123, max_output_tokens=700)
"""Replies a fifth as long as in the real runs it is modelled on (89, 616, 3,504), because contexts are: some 5k tokens
after a dozen steps, there 34k after 76. With full-length replies decoding would outweigh prefill as in no real run."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One arm's surroundings."""

    engine: Engine
    model: Any
    """The framework's client of the engine."""
    sandboxes: dict[AgentPlan, Sandbox | Exception]
    """An exception where a sandbox could not be opened: that agent fails, the others go on."""
    replies: dict[AgentPlan, Script]
    """Of the agents whose scripts the engine does not play itself."""


@contextlib.asynccontextmanager
async def open_setting(
    config: RunConfig, plans: Sequence[AgentPlan], sandboxes: Sandboxes, log: Path
) -> AsyncIterator[Setting]:
    """Engine, scripts and sandboxes for ``plans``; all gone when the block is left.

    Args:
        config: which engine.
        plans: the batch.
        sandboxes: opens the sandboxes; those opened here are closed here.
        log: file for what the embedded engine prints.

    Raises:
        EngineError: the engine cannot be started, reached or prepared.
    """
    async with open_engine(config, log) as engine, contextlib.AsyncExitStack() as stack:
        client = find_framework(config.framework).open_model(engine.url, engine.model)
        model = await stack.enter_async_context(client)
        replies: dict[AgentPlan, Script] = {}
        opened: dict[AgentPlan, Sandbox | Exception] = {}
        for plan in plans:
            if config.replies == "scripted":
                script = scripted_replies(plan.task, seed=plan.seed, config=SOLVER)
                if not await engine.register(plan.agent_id, script):
                    replies[plan] = script
            try:
                opened[plan] = await _open(stack, sandboxes, plan.task.workspace)
            except Exception as error:  # noqa: BLE001 - one broken workspace must not stop the batch
                opened[plan] = error
        setting = Setting(engine, model, opened, replies)
        with tempfile.TemporaryDirectory() as empty:
            await _warm_up(setting, config, await _open(stack, sandboxes, Path(empty)))
        yield setting


async def _open(stack: contextlib.AsyncExitStack, sandboxes: Sandboxes, workspace: Path) -> Sandbox:
    sandbox = await sandboxes.open(workspace)
    stack.push_async_callback(sandbox.close)
    return sandbox


async def _warm_up(setting: Setting, config: RunConfig, sandbox: Sandbox) -> None:
    """Let one agent go all the way, so that imports and first connections are on no arm's clock; then forget it."""
    plan = AgentPlan("warm-up", replace(next(iter(setting.sandboxes)).task, problem="Warm up."), 0)
    call = {"name": "bash", "arguments": {"command": "true"}}
    replies = [
        {"content": "Warming up.", "tool_calls": [call], "output_tokens": 4},
        {"content": "Warm.", "tool_calls": [], "output_tokens": 2},
    ]
    played = await setting.engine.register(plan.agent_id, replies)
    async with Controller(SGLang(setting.engine.url), law=Uncontrolled(), tick=config.tick_s) as controller:
        await run_agent(
            Recorder(plan, time.monotonic, config.max_steps),
            model=setting.model,
            controller=controller,
            sandbox=sandbox,
            replies=None if played else replies,
            config=config,
        )
    await setting.engine.flush()
