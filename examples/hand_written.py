"""An agent loop of your own round the plain OpenAI client: the two marked lines are Concur."""

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


async def main() -> None:
    async with Controller(SGLang(URL)) as concur, AsyncOpenAI(base_url=f"{URL}/v1", api_key="none") as client:
        llm = concur.wrap_client(client)  # <- each call waits for a seat, and is at a boundary with its reply

        @concur.agent(id_of=lambda name: name)  # <- each call is one agent, finished however it ends
        async def solve(name: str) -> str:
            messages = [{"role": "user", "content": f"You are {name}. Roll a die and tell me the result."}]
            while messages[-1]["role"] != "assistant":
                message = (await llm.chat.completions.create(messages=messages, **OPTIONS)).choices[0].message
                messages.append(message.model_dump(exclude_none=True))
                for call in message.tool_calls or ():
                    result = random.randint(1, json.loads(call.function.arguments)["sides"])
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": str(result)})
            return messages[-1]["content"]

        for answer in await asyncio.gather(*(solve(f"agent-{i}") for i in range(8))):
            print(answer)


if __name__ == "__main__":
    asyncio.run(main())
