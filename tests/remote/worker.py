"""A process of agents: ``python worker.py URL FIRST AGENTS STEPS SECONDS [GATE]``. One line for each that is done.

With a gate, agents go on until that file is there.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys

from concur_agents import Controller


async def main(url: str, first: int, agents: int, steps: int, seconds: float, *gate: str) -> None:
    concur = Controller.connect(url, patience_s=1.0, lease_s=2.0)

    async def live(number: int) -> None:
        async with concur.agent(f"agent{number}") as agent:
            for number_of_step in itertools.count():
                if number_of_step >= steps and all(map(os.path.exists, gate)):
                    break
                async with agent.step() as step:
                    await asyncio.sleep(seconds)
                    step.observe({"prompt_tokens": 100, "completion_tokens": 10})
                await asyncio.sleep(seconds / 2)
        print(f"agent{number}", flush=True)

    async with concur:
        print("ready", flush=True)
        await asyncio.gather(*(live(first + number) for number in range(agents)))
    print("done", flush=True)


if __name__ == "__main__":
    where, *numbers = sys.argv[1:]
    asyncio.run(main(where, int(numbers[0]), int(numbers[1]), int(numbers[2]), float(numbers[3]), *numbers[4:]))
