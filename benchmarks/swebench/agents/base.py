"""What an agent is in any framework: what it is told, its one tool, what is recorded of it. Imports no framework."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from benchmarks.swebench.agents.refusals import refusal
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.edits import edit_command
from benchmarks.swebench.proxy import Proxy
from benchmarks.swebench.records import AgentRecord, StepRecord
from benchmarks.swebench.replay import Script
from benchmarks.swebench.sandbox import CommandResult, Sandbox
from benchmarks.swebench.tasks import Task
from concur_agents import Controller
from concur_agents.usage import TokenUsage

__all__ = ["OUTPUT_CHARS", "SYSTEM_PROMPT", "AgentPlan", "Framework", "Job", "Recorder", "observation"]

SYSTEM_PROMPT = """\
You are a software engineer who fixes a bug in a Python package. Its source tree is your working directory, /testbed.

You work with one tool, `bash`, which runs one command and returns what it printed and its exit code. Each call is a
new shell: directory changes and variables do not last. There is no network, and nothing outside /testbed is kept.

First find the code the report is about, and reproduce the bug. Then change the source, not the tests; keep the change
small and in the style around it. Run your reproduction again, and the tests near what you changed. When the bug is
fixed, say in one or two sentences what was wrong and what you changed, without calling the tool.
"""

EDIT_PROMPT = """
A second tool, `edit`, replaces text in a file: give enough of it to occur exactly once.
"""
OUTPUT_CHARS = 12_000
"""Characters of a command's output that go into the context, as agents in the wild cut it (mini-swe-agent: 10,000)."""
COMMANDS = 4
"""Commands of one agent that run at once. Models that repeat themselves call a tool dozens of times in one reply."""


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What an agent is to do: the same in every arm."""

    agent_id: str
    task: Task
    seed: int


class StepLimitError(Exception):
    """The agent has used all the generations it may use."""


class EngineHungError(Exception):
    """The engine took a request and never answered."""


@dataclass(slots=True)
class _Step:
    """A step on its way to being a :class:`StepRecord`; ``None`` is what has not happened."""

    asked: float
    sent: float | None = None
    replied: float | None = None
    tool_s: float | None = None
    usage: TokenUsage = field(default_factory=TokenUsage)


class Recorder:
    """Watches one agent from around its model and tool calls.

    Args:
        plan: whom.
        clock: wall seconds since the arm's start.
        config: its limits.
        requests: to be entered for each request; lets in as many at once as all agents together may have open.
        proxy: what its requests go through, and by what it knows the agent; None for nothing.
    """

    def __init__(
        self,
        plan: AgentPlan,
        clock: Callable[[], float],
        config: RunConfig,
        requests: AbstractAsyncContextManager[object] | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        self.plan = plan
        self.headers = {} if proxy is None else proxy.headers_of(plan.agent_id)
        """To be sent with each request."""
        self.body = {} if proxy is None else proxy.body_of(plan.agent_id)
        """To be put into each request."""
        self.broken: Exception | None = None
        """What broke its tool. Frameworks differ in whether a tool's error ends an agent; here it always does."""
        self._now = clock
        self._config = config
        self._requests = requests or contextlib.nullcontext()
        self._began = self._now()
        self._steps: list[_Step] = []
        self._commands = self._failed = 0

    def ask(self) -> None:
        """The agent wants to generate."""
        if self.broken is not None:
            raise self.broken
        if len(self._steps) >= self._config.max_steps:
            raise StepLimitError(f"still not done after {self._config.max_steps} generations")
        self._steps.append(_Step(self._now()))

    @contextlib.asynccontextmanager
    async def generating(self) -> AsyncIterator[None]:
        """It has its seat: the request goes out in the block, once it has a place among the open requests.

        Raises:
            EngineHungError: the engine has not answered for as long as the run allows.
            ContextFullError: the agent's conversation is longer than the model's context.
            RefusedError: the engine takes no such request.
        """
        async with self._requests:
            self._steps[-1].sent = self._now()
            try:
                async with asyncio.timeout(self._config.generation_timeout_s) as limit:
                    yield
            except TimeoutError:
                if not limit.expired():
                    raise
                raise EngineHungError(f"no reply within {self._config.generation_timeout_s:g} s") from None
            except Exception as error:
                if (refused := refusal(error)) is not None:
                    raise refused from error
                raise

    def reply(self, usage: TokenUsage) -> None:
        """The reply is here."""
        step = self._steps[-1]
        step.replied = self._now()
        step.usage = usage

    def command(self, result: CommandResult) -> None:
        """A command has ended."""
        self._commands += 1
        self._failed += result.exit_code != 0
        self._steps[-1].tool_s = (self._steps[-1].tool_s or 0.0) + result.seconds

    def record(self, outcome: str, error: BaseException | None = None) -> AgentRecord:
        """The agent has ended; this is what is known of it, but for whether its task is resolved."""
        return AgentRecord(
            agent_id=self.plan.agent_id,
            task_id=self.plan.task.task_id,
            seed=self.plan.seed,
            outcome=outcome,
            error=f"{type(error).__name__}: {error}" if error is not None else None,
            by_concur=outcome == "failed" and error is not None and _raised_by_concur(error.__traceback__),
            commands=self._commands,
            commands_failed=self._failed,
            started_s=self._began,
            ended_s=self._now(),
            steps=tuple(_step_record(step) for step in self._steps),
        )


def _step_record(step: _Step) -> StepRecord:
    return StepRecord(
        started_s=step.asked,
        wait_s=None if step.sent is None else step.sent - step.asked,
        generation_s=None if step.sent is None or step.replied is None else step.replied - step.sent,
        tool_s=step.tool_s,
        prompt_tokens=step.usage.prompt,
        cached_tokens=step.usage.cached,
        output_tokens=step.usage.output,
    )


def _raised_by_concur(traceback: TracebackType | None) -> bool:
    """Whether Concur raised it. Both Concur and we are in every traceback: whoever is deeper did it."""
    concur = False
    while traceback is not None:
        package = traceback.tb_frame.f_globals.get("__name__", "").partition(".")[0]
        if package == "concur_agents" or package.startswith("concur_agents_"):
            concur = True
        elif package == __name__.partition(".")[0]:
            concur = False
        traceback = traceback.tb_next
    return concur


def observation(result: CommandResult) -> str:
    """What the model gets to see of a command: its output, cut in the middle when long, and how it ended."""
    text = result.output
    if len(text) > OUTPUT_CHARS:
        half = OUTPUT_CHARS // 2
        text = f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
    ending = "killed: it ran too long" if result.timed_out else f"exit code {result.exit_code}"
    cut = ", output cut off" if result.truncated else ""
    return f"{text.rstrip()}\n[{ending}{cut}]"


@dataclass(frozen=True, slots=True)
class Job:
    """One agent as its framework gets it."""

    recorder: Recorder
    """Is to be told of each model call: ``ask`` before the wait for a seat, ``generating`` round it, then ``reply``."""
    model: Any
    """What the framework's ``open_model`` made; all agents of an arm share it."""
    controller: Controller
    sandbox: Sandbox
    replies: Script | None
    """Said in place of the model's; None lets the model speak."""
    config: RunConfig
    commands: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(COMMANDS))

    @property
    def agent_id(self) -> str:
        """Whom the engine and Concur are to know it as."""
        return self.recorder.plan.agent_id

    @property
    def problem(self) -> str:
        """The user's message."""
        return self.recorder.plan.task.problem

    @property
    def max_tokens(self) -> int | None:
        """Most tokens of a reply; None where a script says how many there are."""
        return self.config.max_output_tokens if self.config.replies == "model" else None

    @property
    def system_prompt(self) -> str:
        """What it is told first."""
        return SYSTEM_PROMPT if len(self.tools) == 1 else SYSTEM_PROMPT + EDIT_PROMPT

    @property
    def tools(self) -> tuple[Callable[..., Awaitable[str]], ...]:
        """Functions with signature and docstring. A script knows of ``bash`` only."""

        async def bash(command: str) -> str:
            """Run a bash command in /testbed and return its output and exit code."""
            return await self._run(command)

        async def edit(path: str, old: str, new: str) -> str:
            """Replace text in a file below /testbed. `old` must occur exactly once; empty, it makes a new file."""
            return await self._run(edit_command(path, old, new))

        return (bash,) if self.config.replies == "scripted" else (bash, edit)

    async def _run(self, command: object) -> str:
        if not isinstance(command, str):  # AgentScope 1.x hands a model's arguments on as they are
            return f"[a command is a text, not {type(command).__name__}]"
        async with self.commands:
            try:
                result = await self.sandbox.run(command, timeout=self.config.command_timeout_s)
            except Exception as error:
                self.recorder.broken = error
                raise
        self.recorder.command(result)
        recorded = self.recorder.plan.task.recording is not None  # it was cut then, if it was
        return result.output if recorded else observation(result)


class Framework(Protocol):
    """A module that runs agents in one framework, with Concur in them the way that framework's users would put it."""

    PACKAGES: tuple[str, ...]
    """Distributions whose versions a run notes."""
    LOGGERS: tuple[str, ...]
    """Names of the loggers of the framework and of Concur's adapter for it; the core's own comes with them."""

    def open_model(self, url: str, name: str) -> AbstractAsyncContextManager[Any]:
        """A client of the engine at ``url`` (without ``/v1``): never streams, never gives up waiting."""

    async def run(self, job: Job) -> None:
        """Build the agent and run it to its end. Raises what ended it early."""


async def run_job(framework: Framework, job: Job) -> AgentRecord:
    """Run an agent and return its record, whatever its end was. Raises nothing but cancellation."""
    recorder = job.recorder
    try:
        await framework.run(job)
    except Exception as error:  # noqa: BLE001 - an agent may fail in any way; the record says how, the run goes on
        return recorder.record("failed", recorder.broken or error)
    task = asyncio.current_task()
    if task is not None and task.cancelling():  # some frameworks make a reply of a cancellation
        raise asyncio.CancelledError
    if recorder.broken is not None:
        return recorder.record("failed", recorder.broken)
    return recorder.record("completed")
