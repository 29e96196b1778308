"""What an arm runs in and must not share with another: engine, scripts, workspaces and sandboxes, all warmed up."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.engines.emulated import register
from benchmarks.engines.engine import Engine
from benchmarks.engines.wire import EngineError
from benchmarks.swebench.agents import AgentPlan, Recorder, find_framework, run_agent
from benchmarks.swebench.agents.refusals import ContextFullError, RefusedError
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.places import open_place
from benchmarks.swebench.proxy import Proxy
from benchmarks.swebench.replay import Script
from benchmarks.swebench.sandbox import Sandbox, SandboxError, Sandboxes
from benchmarks.swebench.sandbox.recorded import RecordedSandbox
from benchmarks.swebench.solver import LENGTHS, scripted_replies
from benchmarks.swebench.tasks import Task
from concur_agents import Controller, Uncontrolled

__all__ = ["Setting", "open_setting"]

REFUSALS = (ContextFullError.__name__, RefusedError.__name__)
WARM_UP_TOKENS = 16
"""Of a reply to the agent that warms up, where the model decides."""


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
    config: RunConfig,
    engine: Engine,
    plans: Sequence[AgentPlan],
    sandboxes: Sandboxes | None,
    proxy: Proxy | None = None,
) -> AsyncIterator[Setting]:
    """Scripts and sandboxes for ``plans`` on an engine with an empty cache; all gone when the block is left.

    Args:
        config: of the run.
        engine: what the agents talk to.
        plans: the batch.
        sandboxes: opens the sandboxes; those opened here are closed here. None where all agents are recorded.
        proxy: what the agents talk to in place of the engine.

    Raises:
        EngineError: the engine cannot be reached or prepared.
    """
    _check_lengths(config, engine)
    await engine.flush()
    async with contextlib.AsyncExitStack() as stack:
        url = engine.url if proxy is None else proxy.url.rstrip("/")
        client = find_framework(config.framework).open_model(url, engine.model)
        model = await stack.enter_async_context(client)
        replies: dict[AgentPlan, Script] = {}
        opened: dict[AgentPlan, Sandbox | Exception] = {}
        for plan in plans:
            if config.replies == "scripted":
                script = _script(plan, config)
                if not await register(engine, plan.agent_id, script):
                    replies[plan] = script
            try:
                opened[plan] = await _open(stack, sandboxes, plan.task, config)
            except Exception as error:  # noqa: BLE001 - one broken workspace must not stop the batch
                opened[plan] = error
        setting = Setting(engine, model, opened, replies)
        with tempfile.TemporaryDirectory() as empty:
            task = replace(plans[0].task, problem="Warm up.")
            sandbox = await _open(stack, sandboxes, task, config, workspace=Path(empty))
            await _warm_up(setting, config, task, sandbox, proxy)
        yield setting


def _check_lengths(config: RunConfig, engine: Engine) -> None:
    """Raise EngineError where no reply could be as long as it may: servers refuse to be asked for it."""
    context = engine.scheduling.get("context_length")
    if config.replies == "model" and context and config.max_output_tokens >= context:
        raise EngineError(
            f"max_output_tokens must be below {context}, the context of {engine.model}, "
            f"not {config.max_output_tokens}: set --max-output-tokens"
        )


def _script(plan: AgentPlan, config: RunConfig) -> Script:
    recording = plan.task.recording
    if recording is not None:
        return recording.script
    return scripted_replies(plan.task, seed=plan.seed, config=LENGTHS[config.lengths])


async def _open(
    stack: contextlib.AsyncExitStack,
    sandboxes: Sandboxes | None,
    task: Task,
    config: RunConfig,
    *,
    workspace: Path | None = None,
) -> Sandbox:
    if task.recording is not None:
        return RecordedSandbox(task.recording, config.clock_rate)
    if sandboxes is None:
        raise SandboxError(f"there is no sandbox for {task.task_id}")
    sandbox = await open_place(sandboxes, task, workspace=workspace)
    stack.push_async_callback(sandbox.close)
    return sandbox


async def _warm_up(setting: Setting, config: RunConfig, task: Task, sandbox: Sandbox, proxy: Proxy | None) -> None:
    """Let one agent go all the way, so that imports and first connections are on no arm's clock; then forget it.

    Raises:
        EngineError: the engine refuses its requests, and so would refuse all.
    """
    config = replace(config, max_steps=2, max_output_tokens=WARM_UP_TOKENS)
    plan = AgentPlan("warm-up", task, 0)
    call = {"name": "bash", "arguments": {"command": "true"}}
    replies = [
        {"content": "Warming up.", "tool_calls": [call], "output_tokens": 4},
        {"content": "Warm.", "tool_calls": [], "output_tokens": 2},
    ]
    played = await register(setting.engine, plan.agent_id, replies)
    async with Controller(setting.engine.reader(), law=Uncontrolled(), tick=config.tick_s) as controller:
        record = await run_agent(
            Recorder(plan, time.monotonic, config, proxy=proxy),
            model=setting.model,
            controller=controller,
            sandbox=sandbox,
            replies=None if played else replies,
            config=config,
        )
    if proxy is not None:
        await proxy.ended(plan.agent_id)
    if record.error is not None and record.error.startswith(REFUSALS):
        raise EngineError(f"{setting.engine.url} refuses what agents ask of it: {record.error}")
    await setting.engine.flush()
