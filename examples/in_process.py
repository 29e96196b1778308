"""An agent loop of your own round the plain OpenAI client."""

import asyncio
import json
import os
import random

from openai import AsyncOpenAI

from concur_agents import Controller
from concur_agents.engines import SGLang

URL = os.environ.get("CONCUR_ENGINE_URL", "http://127.0.0.1:30000")
ROLL = {"name": "roll", "parameters": {"type": "object", "properties": {"sides": {"type": "integer"}}}}
OPTIONS = {"model": "default", "tools": [{"type": "function", "function": ROLL}], "max_tokens": 100}


async def solve(concur: Controller, client: AsyncOpenAI, name: str) -> None:
    messages = [{"role": "user", "content": "Roll a die and tell me the result."}]
    async with concur.agent(name) as agent:  # finished with its outcome, whatever happens inside
        while messages[-1]["role"] != "assistant":
            async with agent.step() as step:  # waits for a seat
                reply = await client.chat.completions.create(messages=messages, extra_headers=agent.headers, **OPTIONS)
                step.observe(reply.usage)
            message = reply.choices[0].message  # from here on paused: the seat is kept while the tools run
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls or ():
                result = random.randint(1, json.loads(call.function.arguments)["sides"])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": str(result)})
    print(name, messages[-1]["content"])


async def main() -> None:
    async with Controller(SGLang(URL)) as concur, AsyncOpenAI(base_url=f"{URL}/v1", api_key="none") as client:
        await asyncio.gather(*(solve(concur, client, f"agent-{i}") for i in range(8)))


if __name__ == "__main__":
    asyncio.run(main())
