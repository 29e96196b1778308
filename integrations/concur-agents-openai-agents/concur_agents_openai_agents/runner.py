"""The runner: a run of the OpenAI Agents SDK is an agent of Concur's, each of its model calls a step."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
from typing import Any

from agents import Agent, RunResult, RunResultStreaming
from agents.run import AgentRunner

from concur_agents import BaseController, Outcome
from concur_agents.adapters import AgentRun
from concur_agents.agents import outcome_of
from concur_agents_openai_agents.calls import prepare

__all__ = ["ConcurRunner"]

_log = logging.getLogger("concur_agents_openai_agents")
# On the context that a run's result shares with the states made of it: a run that is resumed keeps its id.
_ID = "_concur_agent_id"


class ConcurRunner(AgentRunner):
    """Runs agents as ``Runner`` does, and has them admitted, paused and resumed. Written against openai-agents 0.24.

    ::

        set_default_agent_runner(ConcurRunner(controller))  # for Runner.run and the like, and for agents as tools
        ConcurRunner(controller, agent_id="task-17").run_sync(agent, "Fix the bug")  # or for one run

    A run is one agent, whatever it hands off to. It is called ``agent_id``, else by its conversation, its session or
    its ``RunConfig.group_id``; without any of them a name is made up.

    Args:
        controller: who admits.
        agent_id: stable over the run, and over later runs that go on with it.
    """

    def __init__(self, controller: BaseController, agent_id: str | None = None) -> None:
        self._controller = controller
        self._agent_id = agent_id

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:  # noqa: A002 - the SDK's
        """See ``Runner.run``."""
        with self._begin(input, options) as run:
            try:
                with prepare(run, options).naming():
                    result = await super().run(starting_agent, input, **options)
            except Exception as error:
                if _collected(error):
                    run.finish(Outcome.CANCELLED)
                raise
            _keep(run, result)
            return result

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResultStreaming:  # noqa: A002
        """See ``Runner.run_streamed``. The agent ends when the task that runs it does, whoever reads the stream."""
        # In a context of its own, which the task copies: the caller does not become part of the run.
        return contextvars.copy_context().run(self._run_streamed, starting_agent, input, options)

    def _run_streamed(self, agent: Agent[Any], input_: Any, options: dict[str, Any]) -> RunResultStreaming:
        run = self._begin(input_, options).__enter__()
        try:
            with prepare(run, options).naming():
                result = super().run_streamed(agent, input_, **options)
        except BaseException as error:
            run.__exit__(type(error), error, None)
            raise
        if result.run_loop_task is not None:
            result.run_loop_task.add_done_callback(functools.partial(_ended, run, result))
        return result

    def _begin(self, input_: Any, options: dict[str, Any]) -> AgentRun:
        config = options.get("run_config")
        agent_id = (
            self._agent_id
            or getattr(getattr(input_, "_context", None), _ID, None)
            or options.get("conversation_id")
            or getattr(options.get("session"), "session_id", None)
            or (config.get("group_id") if isinstance(config, dict) else getattr(config, "group_id", None))
        )
        return AgentRun(self._controller, agent_id, log=_log)


def _collected(error: BaseException | None) -> bool:
    """A run that is collected as garbage, and what the SDK's own clean-up raises then."""
    while error is not None and not isinstance(error, GeneratorExit):
        error = error.__context__
    return error is not None


def _keep(run: AgentRun, result: RunResult | RunResultStreaming) -> None:
    """A run that has ended with questions to a person goes on in a later one."""
    if result.interruptions:
        vars(result.context_wrapper)[_ID] = run.agent_id
        run.suspend()


def _ended(run: AgentRun, result: RunResultStreaming, task: asyncio.Task[Any]) -> None:
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    if error is not None:
        run.finish(outcome_of(error))
    elif _refused(result):
        run.finish(Outcome.FAILED)
    else:
        _keep(run, result)
    run.__exit__(None, None, None)


def _refused(result: RunResultStreaming) -> bool:
    """Ended without an error in the task, and yet with one for whoever reads the stream."""
    too_long = result.max_turns is not None and result.current_turn > result.max_turns
    return too_long or any(each.output.tripwire_triggered for each in result.input_guardrail_results)
