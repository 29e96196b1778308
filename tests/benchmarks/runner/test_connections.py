"""A connection that was idle for long is not used again: its server may be closing it at that very moment."""

import pytest

from benchmarks.swebench.agents import connections, find_framework

SERVERS_CLOSE_S = 5.0
REPLY = b'{"choices": [{"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]}'


@pytest.mark.parametrize(("idle_s", "opened"), [(None, 1), (-1.0, 2)])  # at -1 it has always been idle for too long
async def test_agents_connections_are_given_up_when_idle(answering, monkeypatch, idle_s, opened):
    if idle_s is not None:
        monkeypatch.setattr(connections, "IDLE_S", idle_s)
    async with find_framework("langgraph").open_model(answering(200, REPLY), "m") as model:
        for _ in range(2):
            await model.ainvoke("Hi")
    assert (answering.asked, answering.connections) == (2, opened)


def test_servers_keep_them_for_longer():
    assert connections.IDLE_S < SERVERS_CLOSE_S


async def test_they_are_closed_with_the_model(answering):
    async with find_framework("langgraph").open_model(answering(200, REPLY), "m") as model:
        assert model.http_async_client is not None
    assert model.http_async_client.is_closed
