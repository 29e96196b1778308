"""A control law of your own: one pure method from what was seen to how many agents may be seated."""

import asyncio
import os
from dataclasses import dataclass

from openai import AsyncOpenAI

from concur_agents import Controller, Decision, EngineSample, Population, Reason
from concur_agents.engines import SGLang

URL = os.environ.get("CONCUR_ENGINE_URL", "http://127.0.0.1:30000")


@dataclass(frozen=True)
class OneByOne:
    """One agent more while less than ``high`` of the KV cache is in use, one less while more is."""

    initial: float = 2
    high: float = 0.7

    def decide(self, sample: EngineSample, population: Population) -> Decision:
        if sample.pinned_usage is None:
            return Decision(population.window, Reason.UNKNOWN)
        if sample.pinned_usage < self.high:
            return Decision(population.window + 1, Reason.GROW)
        return Decision(population.window - 1, Reason.CUT)


async def main() -> None:
    client = AsyncOpenAI(base_url=f"{URL}/v1", api_key="none")
    async with client, Controller(SGLang(URL), law=OneByOne()) as concur, concur.agent("agent-0") as agent:
        async with agent.step():
            await client.completions.create(model="default", prompt="1, 2, 3,", extra_headers=agent.headers)
        print(*concur.history(), sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
