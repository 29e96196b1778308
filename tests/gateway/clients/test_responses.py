"""The responses API of OpenAI's client, unmodified: what it gets through a gateway is what it gets from the engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest

from concur_agents.gateway.replies import ReplyWatch

RECORDED = ("sglang-0.5.23-messages-responses.yaml", "/v1/responses")
SCRIPTED = "Look into the folder."
TOOL: dict[str, Any] = {"type": "function", "name": "bash", "parameters": {"type": "object", "properties": {}}}
MODEL = "served"
ASK: dict[str, Any] = {"model": MODEL, "input": "List the files of this project.", "max_output_tokens": 9}
ACT: dict[str, Any] = {
    "model": MODEL,
    "instructions": "Be brief.",
    "input": [{"role": "user", "content": SCRIPTED}],
    "tools": [TOOL],
}
ASKED: dict[str, dict[str, Any]] = {
    "whole": ASK,
    "stream": ASK | {"stream": True},
    "no-limit": {name: ASK[name] for name in ("model", "input")},
    "parts": ASK | {"input": [{"role": "user", "content": [{"type": "input_text", "text": "héllo"}]}]},
    "tools": ACT,
    "tools-stream": ACT | {"stream": True},
    "tools-forced": ACT | {"tool_choice": {"type": "function", "name": "bash"}, "parallel_tool_calls": True},
    "tools-none": ACT | {"tool_choice": "none"},
    "summary": ACT | {"reasoning": {"effort": "low", "summary": "auto"}, "stream": True},
    "encrypted": ACT | {"include": ["reasoning.encrypted_content"], "store": False},
    "named-user": ASK | {"user": "u", "metadata": {"a": "b"}},
    "unknown-fields": ASK | {"extra_body": {"top_k": 5, "custom": [None, 1.5]}, "extra_query": {"a": "/ ?"}},
}


@pytest.fixture(scope="module")
def talk(kit: Any) -> Any:
    return kit.Talk(openai.OpenAI, openai.AsyncOpenAI, "/v1", joined)


def joined(events: list[Any]) -> Any:
    """What a stream says, however its text is cut: that is the engine's speed at the moment."""
    said: list[Any] = []
    for event in events:
        if "delta" not in event:
            said.append(event)
        elif said and said[-1].get("type") == event["type"]:
            said[-1]["delta"] += event["delta"]
        else:
            said.append(event)
    return said


def as_served(ways: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """A request for the model that there is: SGLang takes no other in this API."""
    return asked | {"model": ways.model} if asked.get("model") == MODEL else asked


@pytest.mark.parametrize("name", ASKED)
def test_the_client_gets_what_the_engine_says(kit: Any, talk: Any, ways: Any, name: str) -> None:
    asked = as_served(ways, ASKED[name])
    direct, through = (talk.sync(url, lambda client: client.responses.create(**asked)) for url in ways.urls)
    assert direct == through
    assert kit.idle(ways)
    if name == "tools":
        assert [item["type"] for item in direct["output"]] == ["reasoning", "message", "function_call"]


@pytest.mark.parametrize("name", ASKED)
async def test_the_async_client_gets_what_the_engine_says(kit: Any, talk: Any, ways: Any, name: str) -> None:
    asked = as_served(ways, ASKED[name])
    direct, through = [await talk.later(url, lambda client: client.responses.create(**asked)) for url in ways.urls]
    assert direct == through
    assert kit.idle(ways)


def test_the_stream_helper_puts_the_same_response_together(kit: Any, talk: Any, ways: Any) -> None:
    said = []
    for url in ways.urls:
        with (
            openai.OpenAI(base_url=url + "/v1", api_key="none") as client,
            client.responses.stream(**as_served(ways, ACT)) as stream,
        ):
            said.append(kit.kept(stream.get_final_response().model_dump(warnings=False)))
    assert said[0] == said[1]
    assert said[0]["status"] == "completed"
    assert [item["type"] for item in said[0]["output"]] == ["reasoning", "message", "function_call"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_of_many_turns_is_one_agent_and_finds_its_own_cache(
    kit: Any, talk: Any, ways: Any, stream: bool
) -> None:
    for url in ways.urls:
        with openai.OpenAI(base_url=url + "/v1", api_key="none") as client:
            items: list[Any] = list(ACT["input"])
            usage = []
            for _ in range(3):
                asked = as_served(ways, ACT | {"input": items})
                if stream:
                    with client.responses.stream(**asked) as events:
                        reply: Any = events.get_final_response()
                else:
                    reply = client.responses.create(**asked)
                usage.append(reply.usage)
                items += [item.model_dump(exclude_none=True, warnings=False) for item in reply.output]
                called = [item.call_id for item in reply.output if item.type == "function_call"]
                results = [{"type": "function_call_output", "call_id": call, "output": "a.txt"} for call in called]
                items += results or [{"role": "user", "content": "And?"}]
        assert usage[1].input_tokens_details.cached_tokens > 0
    (member,) = ways.served.gateway.roster
    assert ways.served.controller.view(member.agent_id).steps == 3


@pytest.mark.parametrize("stream", [False, True])
def test_the_gateway_sees_the_usage_on_its_way(kit: Any, talk: Any, ways: Any, stream: bool) -> None:
    before = ways.served.controller.stats()
    said = []
    for _ in range(2):
        with openai.OpenAI(base_url=ways.through + "/v1", api_key="none") as client:
            reply: Any = client.responses.create(**as_served(ways, ASK), stream=stream)
            said.append(list(reply)[-1].response.usage if stream else reply.usage)
    after = ways.served.controller.stats()
    cached = sum(usage.input_tokens_details.cached_tokens for usage in said)
    assert cached > 0
    assert after.cached_tokens - before.cached_tokens == cached
    assert after.prompt_tokens - before.prompt_tokens == sum(usage.input_tokens for usage in said)
    assert after.output_tokens - before.output_tokens == sum(usage.output_tokens for usage in said)


# --- errors, as the client raises them ---

LONG = ASK | {"input": "x" * 200_000}
ERRORS: dict[str, tuple[type[openai.APIStatusError], Callable[[Any, Any], Any]]] = {
    "no-such-model": (openai.NotFoundError, lambda client, _: client.responses.create(model="m", input="x")),
    "too-long": (openai.BadRequestError, lambda client, ways: client.responses.create(**as_served(ways, LONG))),
    "no-store": (
        openai.BadRequestError,
        lambda client, ways: client.responses.create(**as_served(ways, ASK), previous_response_id="resp_1"),
    ),
    "no-such-response": (openai.BadRequestError, lambda client, _: client.responses.retrieve("resp_1")),
    "nothing-to-cancel": (openai.BadRequestError, lambda client, _: client.responses.cancel("resp_1")),
    "no-such-tool": (
        openai.BadRequestError,
        lambda client, ways: client.responses.create(**as_served(ways, ASK), tool_choice="required"),
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_of_the_engine_is_the_same_exception(kit: Any, talk: Any, ways: Any, name: str) -> None:
    kind, call = ERRORS[name]
    raised = []
    for url in ways.urls:
        with pytest.raises(kind) as caught:
            talk.sync(url, lambda client: call(client, ways))
        error = caught.value
        raised.append((type(error), str(error), error.body, error.status_code, error.response.content))
    assert raised[0] == raised[1]
    assert kit.idle(ways)


def test_a_stream_that_fails_is_the_same_events(kit: Any, talk: Any, ways: Any) -> None:
    asked = as_served(ways, LONG | {"stream": True})
    direct, through = (talk.sync(url, lambda client: client.responses.create(**asked)) for url in ways.urls)
    assert direct == through
    assert direct[-1]["type"] == "response.failed"
    assert kit.idle(ways)


def test_a_request_that_failed_in_its_stream_is_asked_again_by_the_same_agent(kit: Any, talk: Any, ways: Any) -> None:
    with openai.OpenAI(base_url=ways.through + "/v1", api_key="none", max_retries=0) as client:
        for _ in range(3):
            list(client.responses.create(**as_served(ways, LONG), stream=True))
    assert len(ways.served.gateway.roster) == 1


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("output", "ends", "calls"),
    [
        ([], True, False),
        ([{"type": "message", "content": [{"type": "output_text", "text": "Done."}]}], True, False),
        ([{"type": "function_call", "call_id": "c", "name": "bash", "arguments": "{}"}], False, True),
        ([{"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "x"}], False, True),
    ],
)
def test_a_response_that_calls_no_tool_ends_its_turn(output: Any, ends: bool, calls: bool, whole: bool) -> None:
    response = {"id": "resp_1", "object": "response", "status": "completed", "output": output, "usage": {}}
    said = response if whole else {"type": "response.completed", "response": response}
    watch = ReplyWatch(200, "application/json" if whole else "text/event-stream")
    text = json.dumps(said)
    watch.feed((text if whole else f"event: response.completed\ndata: {text}\n\n").encode())
    watch.end()
    assert (watch.ends_turn, watch.calls_tools) == (ends, calls)


def test_a_response_that_failed_in_whole_is_asked_again_by_the_same_agent(kit: Any, sglang: Any) -> None:
    known = len(sglang.served.gateway.roster)
    failed = {"id": "resp_1", "object": "response", "status": "failed", "output": [], "error": {"code": "server_error"}}
    sglang.answers = [kit.reply_of(200, json.dumps(failed).encode(), Content_Type="application/json")]
    for _ in range(3):
        httpx.post(sglang.served.url + "/v1/responses", json=ACT)
    assert len(sglang.served.gateway.roster) == known + 1


# --- what a real engine said ---


def test_what_sglang_really_said_arrives_byte_for_byte(kit: Any, sglang: Any, interaction: Any) -> None:
    sglang.answers = [kit.as_sent(interaction)]
    asked = (interaction["request"]["body"] or "").encode()
    method, path = interaction["request"]["method"], interaction["request"]["uri"].removeprefix("http://engine")
    replies = [
        httpx.request(method, url + path, content=asked, headers={"content-type": "application/json"})
        for url in sglang.urls
    ]
    assert {reply.status_code for reply in replies} == {interaction["response"]["status"]["code"]}
    assert {reply.content for reply in replies} == {interaction["response"]["body"]["string"].encode()}
    assert kit.idle(sglang)
