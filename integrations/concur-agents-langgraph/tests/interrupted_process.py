"""A server's process that runs one agent until a person is asked, and says what it still knows of it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx2
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import interrupt

from concur_agents import Controller, FixedWindow
from concur_agents.testing import ScriptedReader
from concur_agents_langgraph import ConcurMiddleware, wrap


@tool
def ask_person(text: str) -> str:
    """Ask."""
    return str(interrupt(text))


async def main(url: str, database: str) -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    async with (
        Controller(ScriptedReader(), law=FixedWindow(1), background=False) as concur,
        AsyncSqliteSaver.from_conn_string(database) as saver,
        httpx2.AsyncClient(verify=False) as http,
    ):
        model = ChatOpenAI(model="m", base_url=url + "/v1", api_key="none", max_retries=0, http_async_client=http)
        agent = create_agent(model, [ask_person], middleware=[ConcurMiddleware(concur)], checkpointer=saver)
        result = await wrap(agent, concur, park_on_interrupt=False).ainvoke({"messages": [("user", "hello")]}, config)
        known = [view.agent_id for view in concur.agents()]
        finished = {str(outcome): count for outcome, count in concur.stats().finished.items()}
        print(json.dumps({"question": result["__interrupt__"][0].value, "left": known, "finished": finished}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
