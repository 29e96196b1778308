"""The agent service, over its own ASGI application: agents that AgentScope builds, turn by turn."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from agentscope.agent import Agent
from agentscope.app import create_app
from agentscope.app.message_bus import InMemoryMessageBus
from agentscope.app.storage import AsyncSQLAlchemyStorage
from agentscope.app.workspace_manager import LocalWorkspaceManager
from agentscope.message import UserMsg
from agentscope.tool import FunctionTool

from concur_agents import AgentEventKind
from concur_agents_agentscope import ConcurMiddleware, disable, enable

WORK = [("work", {"text": "x"})]


async def work(text: str) -> str:
    """Do some work.

    Args:
        text (str): what to do
    """
    return text


async def tools(user_id: str, agent_id: str, session_id: str) -> list[Any]:
    return [FunctionTool(work)]  # without a permission: the person is asked


class Service:
    """What a frontend does."""

    def __init__(self, http: httpx.AsyncClient, engine_url: str) -> None:
        self._http = http
        self._engine_url = engine_url

    async def session(self) -> dict[str, str]:
        """A new agent and a session with it."""
        credential = {"type": "openai_credential", "api_key": "none", "base_url": self._engine_url + "/v1"}
        made = await self.post("/credential/", data=credential)
        agent = await self.post("/agent/", name="agent")
        model = {"type": "openai_credential", "model": "m", "model_class": "openai_chat", "parameters": {}}
        model["credential_id"] = made["credential_id"]
        session = await self.post("/sessions/", agent_id=agent["agent_id"], chat_model_config=model, name="s")
        return {"agent_id": agent["agent_id"], "session_id": session["session_id"]}

    async def post(self, path: str, **body: Any) -> Any:
        reply = await self._http.post(path, json=body)
        reply.raise_for_status()
        return reply.json()

    async def say(self, session: dict[str, str]) -> None:
        await self.post("/chat/", **session, input=UserMsg(name="user", content="hello").model_dump(mode="json"))

    async def asked(self, session: dict[str, str]) -> dict[str, Any]:
        """Wait until the person is asked; the message that asks."""
        path, query = f"/sessions/{session['session_id']}/messages", {"agent_id": session["agent_id"]}
        while True:
            messages = (await self._http.get(path, params=query)).json()["messages"]
            for message in messages:
                if any(block.get("state") == "asking" for block in message["content"]):
                    return message
            await asyncio.sleep(0)

    async def answer(self, session: dict[str, str], message: dict[str, Any]) -> None:
        call = next(block for block in message["content"] if block["type"] == "tool_call")
        results = [{"confirmed": True, "tool_call": call}]
        event = {"type": "USER_CONFIRM_RESULT", "reply_id": message["id"], "confirm_results": results}
        await self.post("/chat/", **session, input=event)


@pytest.fixture
def serve(engine, tmp_path) -> Callable[..., contextlib.AbstractAsyncContextManager[Service]]:
    made: list[Agent] = []

    class Kept(Agent):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    @contextlib.asynccontextmanager
    async def serving(**options: Any) -> AsyncIterator[Service]:
        app = create_app(
            storage=AsyncSQLAlchemyStorage(f"sqlite+aiosqlite:///{tmp_path}/service.db"),
            message_bus=InMemoryMessageBus(),
            workspace_manager=LocalWorkspaceManager(str(tmp_path / "work")),
            extra_agent_tools=tools,
            custom_agent_cls=Kept,
            **options,
        )
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app), base_url="http://service", headers={"X-User-ID": "user"}
            ) as http,
        ):
            yield Service(http, engine.url)
        for agent in made:
            await agent.model.client.close()  # which the service leaves to the collector

    return serving


async def test_agents_of_the_service_are_controlled(engine, world, serve):
    async def middlewares(user_id: str, agent_id: str, session_id: str) -> list[ConcurMiddleware]:
        return [ConcurMiddleware(world.controller)]

    async with serve(extra_agent_middlewares=middlewares) as service:
        session = await service.session()
        engine.script(session["session_id"], "done")
        await service.say(session)
        await world.seen(session["session_id"], AgentEventKind.FINISHED)
    assert world.lives() == {session["session_id"]: ["admitted", "paused", "completed"]}


async def test_nothing_is_held_while_the_services_person_thinks(engine, world, serve):
    """Each turn is another object, made from what is stored; it is the same agent."""
    enable(world.controller)
    try:
        async with serve() as service:
            session = await service.session()
            session_id = session["session_id"]
            engine.script(session_id, WORK, "done")
            await service.say(session)
            question = await service.asked(session)
            assert world.left() == {session_id: "parked"}
            assert world.seated == 0
            await service.answer(session, question)
            await world.seen(session_id, AgentEventKind.FINISHED)
    finally:
        disable()
    assert world.lives() == {session_id: ["admitted", "paused", "parked", "resumed", "paused", "completed"]}
