"""A batch of LangChain agents on one engine: the two marked lines are Concur."""

import asyncio
import os

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from concur_agents import Controller
from concur_agents.engines import SGLang
from concur_agents_langgraph import ConcurMiddleware, wrap

URL = os.environ.get("CONCUR_ENGINE_URL", "http://127.0.0.1:30000")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    model = ChatOpenAI(model="default", base_url=f"{URL}/v1", api_key="none", max_tokens=100)
    async with Controller(SGLang(URL)) as concur:  # <-
        agent = wrap(create_agent(model, [add], middleware=[ConcurMiddleware(concur)]), concur)  # <-
        inputs = [{"messages": [("user", f"What is {i} + {i}?")]} for i in range(8)]
        for result in await agent.abatch(inputs, [{"configurable": {"thread_id": f"agent-{i}"}} for i in range(8)]):
            print(result["messages"][-1].text)


if __name__ == "__main__":
    asyncio.run(main())
