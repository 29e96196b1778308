"""Agents as Ray tasks on two engines: the marked lines are Concur. RAY_ADDRESS names a cluster; else it starts here."""

import asyncio

import ray
from openai import AsyncOpenAI

import concur_agents_ray
from concur_agents.emulator import Emulator


@ray.remote
def solve_all(names: list[str]) -> list[str]:
    concur = concur_agents_ray.controller()  # <- this process's
    client = AsyncOpenAI(base_url="http://nowhere/v1", api_key="none")
    llm = concur.wrap_client(client)  # <- each call waits for a seat, and goes to the engine its agent is on

    @concur.agent(id_of=lambda name: name)  # <- each call is one agent, finished however it ends
    async def solve(name: str) -> str:
        messages = [{"role": "user", "content": f"You are {name}. Count."}]
        for _ in range(3):
            reply = await llm.chat.completions.create(model="default", messages=messages, max_tokens=16)
            messages += [reply.choices[0].message.model_dump(exclude_none=True), {"role": "user", "content": "Go on."}]
        return f"{name} ended at {concur.engine(name)}"

    async def main() -> list[str]:
        return await asyncio.gather(*(solve(name) for name in names))

    return asyncio.run(main())


if __name__ == "__main__":
    with Emulator() as first, Emulator() as second, ray.init(num_cpus=2):
        concur_agents_ray.controller(engines=[first.url, second.url])  # <- a shard for each
        tasks = [solve_all.remote([f"agent-{task}-{number}" for number in range(4)]) for task in range(2)]
        print(*sorted(line for lines in ray.get(tasks) for line in lines), sep="\n")
        concur_agents_ray.shutdown()
