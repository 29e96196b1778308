"""``python -m benchmarks.remote.worker``: a process of agents that step and wait; prints what each step cost, as JSON.

A step here is entering and leaving it, without a generation: what Concur adds to each.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import sys
import time

from concur_agents import Controller

__all__: list[str] = []


async def _run(url: str, first: int, agents: int, seconds: float, pause_s: float) -> None:
    costs: list[float] = []
    begun = asyncio.Barrier(agents + 1)
    measured = asyncio.Event()
    over = False

    async with Controller.connect(url, lease_s=60) as concur:

        async def live(number: int) -> None:
            chance = random.Random(number)
            async with concur.agent(f"agent{number}") as agent:
                async with agent.step():
                    pass
                await begun.wait()
                await measured.wait()
                await asyncio.sleep(pause_s * chance.random())
                while not over:
                    began = time.perf_counter()
                    async with agent.step() as step:
                        entered = time.perf_counter()
                        step.observe({"prompt_tokens": 1000, "completion_tokens": 100})
                        left = time.perf_counter()
                    costs.append(entered - began + time.perf_counter() - left)
                    await asyncio.sleep(pause_s * (0.5 + chance.random()))

        tasks = [asyncio.create_task(live(first + number)) for number in range(agents)]
        await begun.wait()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        gc.collect()
        gc.freeze()
        cpu_s = time.process_time()
        measured.set()
        await asyncio.sleep(seconds)
        cpu_s = time.process_time() - cpu_s
        over = True
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    sys.stdout.write(json.dumps({"cpu_s": cpu_s, "costs": costs}) + "\n")


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--agents", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--pause", type=float, required=True)
    given = parser.parse_args()
    asyncio.run(_run(given.url, given.first, given.agents, given.seconds, given.pause))


if __name__ == "__main__":
    _main()
