"""One agent: a framework's own agent with one tool, bash in its own sandbox.

Which framework is a choice of the run (``RunConfig.framework``). Everything that can be is the same in each: prompt,
tool, limits and records are in ``base.py``; a framework's module only builds the agent, puts Concur into it as a user
would, and has the recorder look on from around its model calls.
"""

from __future__ import annotations

import importlib.metadata
import platform
from functools import cache

from benchmarks.swebench.agents.base import (
    OUTPUT_CHARS,
    AgentPlan,
    Framework,
    Job,
    Recorder,
    observation,
    run_job,
)
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.records import AgentRecord
from benchmarks.swebench.replay import Script
from benchmarks.swebench.sandbox import Sandbox
from concur_agents import Controller

__all__ = [
    "OUTPUT_CHARS",
    "AgentPlan",
    "Framework",
    "Recorder",
    "find_framework",
    "observation",
    "run_agent",
    "versions",
]


@cache
def find_framework(name: str) -> Framework:
    """The framework's module. Only this imports a framework, so a run needs no other one.

    Args:
        name: as in ``RunConfig.framework``.

    Raises:
        ValueError: it or its adapter is not installed; the message says how to get it.
    """
    try:
        if name == "langgraph":
            from benchmarks.swebench.agents import langgraph

            return langgraph
        if importlib.metadata.version("agentscope").startswith("1."):
            from benchmarks.swebench.agents import agentscope1

            return agentscope1
        from benchmarks.swebench.agents import agentscope2
    except ImportError as error:  # a missing distribution is one as well
        raise ValueError(
            f"framework {name!r} is not installed here ({error}): pip install {name} concur-agents-{name}"
        ) from None
    return agentscope2


def versions(framework: Framework) -> dict[str, str]:
    """What a run ran on, exactly."""
    packages = ("concur-agents", *framework.PACKAGES)
    return {
        "python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in packages},
    }


async def run_agent(
    recorder: Recorder,
    *,
    model: object,
    controller: Controller,
    sandbox: Sandbox,
    replies: Script | None,
    config: RunConfig,
) -> AgentRecord:
    """Run the agent to its end and return its record, whatever that end is. Raises nothing but cancellation.

    Args:
        recorder: made for this agent and this run.
        model: what generates; made by the framework's ``open_model``.
        controller: what admits.
        sandbox: where its commands run.
        replies: said in place of the model's, see ``replay.py``; None lets the model speak.
        config: its framework and limits.
    """
    return await run_job(find_framework(config.framework), Job(recorder, model, controller, sandbox, replies, config))
