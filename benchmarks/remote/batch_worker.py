"""``python -m benchmarks.remote.batch_worker``: a process of a framework's agents on a shared controller.

Prints how its agents ended and what their steps waited for a seat, as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time

from benchmarks.engines.engine import connect
from benchmarks.swebench.agents import AgentPlan, Recorder, find_framework, run_agent
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.recordings import RecordedTurn, Recording
from benchmarks.swebench.sandbox.recorded import RecordedSandbox
from benchmarks.swebench.tasks import Task
from concur_agents import Controller

__all__: list[str] = []

_SAID = "The file has some lines of code, and a test of them that fails. " * 12
_TOKENS, _TOOL_S = 24, 0.5


async def _run(given: argparse.Namespace) -> None:
    config = RunConfig(framework=given.framework, engine=given.engine, agents=given.agents, max_steps=given.steps + 1)
    model, clock = (await connect(given.engine)).model, time.monotonic
    framework = find_framework(given.framework)
    async with Controller.connect(given.url) as concur, framework.open_model(given.engine, model) as llm:

        async def live(number: int) -> dict[str, object]:
            turns = [RecordedTurn(content="I look.", output_tokens=_TOKENS, observation=_SAID, tool_s=_TOOL_S)]
            task = Task.recorded(
                Recording(name=f"task-{number}", problem=f"Task {number}. {_SAID}", turns=tuple(turns * given.steps))
            )
            recorder = Recorder(AgentPlan(f"{given.framework}-{number}", task, 0), clock, config)
            assert task.recording is not None  # noqa: S101 - made so
            record = await run_agent(
                recorder,
                model=llm,
                controller=concur,  # type: ignore[arg-type] # one elsewhere has the same surface
                sandbox=RecordedSandbox(task.recording, 1.0),
                replies=task.recording.script,
                config=config,
            )
            waits = [step.wait_s for step in record.steps if step.wait_s is not None]
            return {"outcome": record.outcome, "error": record.error, "steps": len(record.steps), "waits": waits}

        numbers = range(given.first, given.first + given.agents)
        ended = await asyncio.gather(*(live(number) for number in numbers))
    sys.stdout.write(json.dumps({"ended": ended, "cpu_s": time.process_time()}) + "\n")


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--framework", required=True)
    for name in ("--first", "--agents", "--steps"):
        parser.add_argument(name, type=int, required=True)
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    _main()
