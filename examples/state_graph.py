"""A hand-written StateGraph: add_concur stands where graph.compile() stood."""

import asyncio
import os

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from concur_agents import Controller
from concur_agents.engines import SGLang
from concur_agents_langgraph import add_concur, session_headers

URL = os.environ.get("CONCUR_ENGINE_URL", "http://127.0.0.1:30000")


@tool(description="Add two numbers.")
def add(a: int, b: int) -> int:
    return a + b


async def call_model(state: MessagesState) -> dict:
    model = ChatOpenAI(model="default", base_url=f"{URL}/v1", api_key="none", max_tokens=100).bind_tools([add])
    return {"messages": await model.ainvoke(state["messages"], extra_headers=session_headers())}


async def main() -> None:
    graph = StateGraph(MessagesState).add_node("model", call_model).add_node("tools", ToolNode([add]))
    graph.add_edge(START, "model").add_conditional_edges("model", tools_condition).add_edge("tools", "model")
    async with Controller(SGLang(URL)) as concur:
        agent = add_concur(graph, concur, model_node="model", tool_node="tools")
        inputs = [{"messages": [("user", f"What is {i} + {i}?")]} for i in range(8)]
        results = await agent.abatch(inputs, [{"configurable": {"thread_id": f"agent-{i}"}} for i in range(8)])
    print(*(result["messages"][-1].text for result in results), sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
