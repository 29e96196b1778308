"""What is added to a request, for whom, and what is read from a reply."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.types import Command

from concur_agents import Controller
from concur_agents.agents import header_value
from concur_agents.fleet import FleetController
from concur_agents.testing import ScriptedReader
from concur_agents_langgraph.models import prepared, reply_usage

USAGE: Any = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}
REPLY = AIMessage("hi", usage_metadata=USAGE)


ONE = Controller(ScriptedReader(), background=False)
ENGINES = ("http://127.0.0.1:9", "http://127.0.0.1:10")


def request(model: Any, **settings: Any) -> ModelRequest[Any]:
    return ModelRequest(model=model, messages=[], model_settings=settings)


def test_other_models_requests_stay_as_they_are() -> None:
    original = request(FakeListChatModel(responses=["x"]))
    assert prepared(original, ONE, "a", "X-Session-ID") is original


class Derived(ChatOpenAI):
    pass


@pytest.mark.parametrize("kind", [ChatOpenAI, Derived])
def test_openai_models_get_the_header_beside_the_users_own(kind: Any) -> None:
    model = kind(model="m", base_url="http://127.0.0.1:9/v1", api_key="none")
    given = request(model, extra_headers={"X-Mine": "1"}, seed=3)
    settings = prepared(given, ONE, "a", "X-Session-ID").model_settings
    assert settings == {"extra_headers": {"X-Session-ID": "a", "X-Mine": "1"}, "seed": 3}


@pytest.mark.parametrize("decided", [True, False])
def test_model_that_decided_about_streamed_usage_stays_itself(decided: bool) -> None:
    model = ChatOpenAI(model="m", base_url="http://127.0.0.1:9/v1", api_key="none", stream_usage=decided)
    assert prepared(request(model), ONE, "a", None).model is model


def test_with_several_engines_the_users_model_stays_as_it_is_and_a_copy_is_routed() -> None:
    model = ChatOpenAI(model="m", base_url=f"{ENGINES[0]}/v1", api_key="none", stream_usage=True)
    before = {name: getattr(model, name) for name in ("client", "async_client", "root_client", "root_async_client")}
    with contextlib.closing(FleetController(dict.fromkeys(ENGINES, ScriptedReader()), background=False)) as several:
        routed: Any = prepared(request(model), several, "a", None).model
        assert type(routed) is ChatOpenAI
        assert {name: getattr(model, name) for name in before} == before
        for name, client in before.items():
            assert getattr(routed, name) is not client
        assert routed.client._client is routed.root_client
        assert routed.async_client._client is routed.root_async_client
        assert prepared(request(routed), several, "a", None).model is routed


@pytest.mark.parametrize(
    ("agent_id", "value"),
    [("task-17/tools:5c|1", "task-17/tools:5c|1"), ("a b", "a%20b"), ("é\r\n", "%C3%A9%0D%0A"), ("100%", "100%25")],
)
def test_header_value_is_always_a_legal_one(agent_id: str, value: str) -> None:
    assert header_value(agent_id) == value


@dataclass
class State:
    messages: list[Any]


@pytest.mark.parametrize(
    "reply",
    [
        REPLY,
        [HumanMessage("q"), REPLY],
        {"messages": REPLY},
        {"messages": [AIMessage("older"), REPLY]},
        Command(update={"messages": [REPLY]}),
        [Command(update={"messages": [REPLY]})],
        ModelResponse(result=[REPLY, ToolMessage("x", tool_call_id="1")]),
        ExtendedModelResponse(model_response=ModelResponse(result=[REPLY])),
        State(messages=[REPLY]),
    ],
)
def test_usage_is_found_in_whatever_holds_the_reply(reply: Any) -> None:
    assert reply_usage(reply) == USAGE


@pytest.mark.parametrize("reply", [None, {}, "text", AIMessage("hi"), Command(goto="x"), {"other": [REPLY]}])
def test_usage_that_is_not_there_is_unknown(reply: Any) -> None:
    assert reply_usage(reply) is None


def test_messages_a_node_was_given_are_nobodys_reply() -> None:
    assert reply_usage({"messages": [REPLY]}, known=[REPLY]) is None
