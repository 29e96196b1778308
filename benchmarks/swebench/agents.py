"""One agent: LangGraph's ``create_agent`` with one tool, bash in its own sandbox.

Concur is in it the way a user would put it in: one middleware and one wrap. The two recording middlewares around it
only look at the clock, so that waiting for a seat and generating can be told apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool, tool

from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.records import AgentRecord, StepRecord
from benchmarks.swebench.replay import ReplayMiddleware, Script
from benchmarks.swebench.sandbox import CommandResult, Sandbox
from benchmarks.swebench.tasks import Task
from concur_agents import Controller
from concur_agents.usage import TokenUsage
from concur_agents_langgraph import ConcurMiddleware, wrap

__all__ = ["AgentPlan", "Recorder", "run_agent"]

SYSTEM_PROMPT = """\
You are a software engineer who fixes a bug in a Python package. Its source tree is your working directory, /testbed.

You work with one tool, `bash`, which runs one command and returns what it printed and its exit code. Each call is a
new shell: directory changes and variables do not last. There is no network, and nothing outside /testbed is kept.

First find the code the report is about, and reproduce the bug. Then change the source, not the tests; keep the change
small and in the style around it. Run your reproduction again, and the tests near what you changed. When the bug is
fixed, say in one or two sentences what was wrong and what you changed, without calling the tool.
"""

OUTPUT_CHARS = 12_000
"""Characters of a command's output that go into the context, as agents in the wild cut it (mini-swe-agent: 10,000)."""


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What an agent is to do: the same in every arm."""

    agent_id: str
    task: Task
    seed: int


class StepLimitError(Exception):
    """The agent has used all the generations it may use."""


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
        max_steps: generations it may use.
    """

    def __init__(self, plan: AgentPlan, clock: Callable[[], float], max_steps: int) -> None:
        self.plan = plan
        self._now = clock
        self._max_steps = max_steps
        self._began = self._now()
        self._steps: list[_Step] = []
        self._commands = self._failed = 0

    def ask(self) -> None:
        """The agent wants to generate."""
        if len(self._steps) >= self._max_steps:
            raise StepLimitError(f"still not done after {self._max_steps} generations")
        self._steps.append(_Step(self._now()))

    def send(self) -> None:
        """It has its seat; the request goes out."""
        self._steps[-1].sent = self._now()

    def reply(self, response: ModelResponse[Any]) -> None:
        """The reply is here."""
        step = self._steps[-1]
        step.replied = self._now()
        step.usage = TokenUsage.of(getattr(response.result[-1], "usage_metadata", None))

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
        module = traceback.tb_frame.f_globals.get("__name__", "").partition(".")[0]
        if module in ("concur_agents", "concur_agents_langgraph"):
            concur = True
        elif module == __name__.partition(".")[0]:
            concur = False
        traceback = traceback.tb_next
    return concur


class _Asked(AgentMiddleware[Any, Any, Any]):
    """Outside Concur: before the wait for a seat."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Note when the agent asks."""
        self._recorder.ask()
        return await handler(request)


class _Sent(AgentMiddleware[Any, Any, Any]):
    """Inside Concur: after the wait for a seat."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Note when the request goes out and when its reply is here."""
        self._recorder.send()
        response = await handler(request)
        self._recorder.reply(response)
        return response


def _bash(sandbox: Sandbox, recorder: Recorder, timeout: float) -> BaseTool:
    @tool
    async def bash(command: str) -> str:
        """Run a bash command in /testbed and return its output and exit code."""
        result = await sandbox.run(command, timeout=timeout)
        recorder.command(result)
        return observation(result)

    return bash


def observation(result: CommandResult) -> str:
    """What the model gets to see of a command: its output, cut in the middle when long, and how it ended."""
    text = result.output
    if len(text) > OUTPUT_CHARS:
        half = OUTPUT_CHARS // 2
        text = f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
    ending = "killed: it ran too long" if result.timed_out else f"exit code {result.exit_code}"
    cut = ", output cut off" if result.truncated else ""
    return f"{text.rstrip()}\n[{ending}{cut}]"


async def run_agent(
    recorder: Recorder,
    *,
    model: BaseChatModel,
    controller: Controller,
    sandbox: Sandbox,
    replies: Script | None,
    config: RunConfig,
) -> AgentRecord:
    """Run the agent to its end and return its record, whatever that end is. Raises nothing but cancellation.

    Args:
        recorder: made for this agent and this run.
        model: what generates.
        controller: what admits.
        sandbox: where its commands run.
        replies: said in place of the model's, see ``replay.py``; None lets the model speak.
        config: its limits.
    """
    plan = recorder.plan
    middleware = [_Asked(recorder), ConcurMiddleware(controller), _Sent(recorder)]
    if replies is not None:
        middleware.append(ReplayMiddleware(replies))
    agent = wrap(
        create_agent(
            model,
            tools=[_bash(sandbox, recorder, config.command_timeout_s)],
            system_prompt=SYSTEM_PROMPT,
            middleware=middleware,
        ),
        controller,
    )
    try:
        await agent.ainvoke(
            {"messages": [{"role": "user", "content": plan.task.problem}]},
            # A step is two nodes; the recorder counts steps, so this limit only has to be out of the way.
            {"configurable": {"thread_id": plan.agent_id}, "recursion_limit": 10 * config.max_steps + 10},
        )
    except asyncio.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - an agent may fail in any way; the record says how, the run goes on
        return recorder.record("failed", error)
    return recorder.record("completed")
