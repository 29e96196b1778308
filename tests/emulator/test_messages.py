"""Anthropic's Messages API: what its recorded comparison with SGLang cannot reach."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TOOL = {"name": "bash", "input_schema": {"type": "object"}}
ASK = [{"role": "user", "content": "Look around."}]
CALLS = [{"name": "bash", "arguments": {"cmd": "ls"}}, {"name": "look", "arguments": "{}"}]
BOTH = {"content": "Let me see.", "tool_calls": CALLS}
REASONED = {"content": "Yes.", "reasoning": "Let me think.", "tool_calls": CALLS[:1]}


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "any", "max_tokens": 99, "messages": ASK, **fields}


async def ask(client: Any, **fields: Any) -> Any:
    answer = await client.post("/v1/messages", body(**fields), x_session_id="s")
    assert answer.status == 200, answer.text
    return answer


async def script(client: Any, *replies: Any) -> None:
    assert (await client.post("/emulator/scripts", {"session_id": "s", "replies": list(replies)})).status == 200


async def test_a_scripted_agent_calls_its_tools_and_then_ends(serve: Any) -> None:
    client = serve()
    await script(client, BOTH, {"content": "All done."})
    first = (await ask(client, tools=[TOOL])).json()
    assert first["stop_reason"] == "tool_use"
    assert [{**block, "id": ""} for block in first["content"][1:]] == [
        {"type": "tool_use", "id": "", "name": "bash", "input": {"cmd": "ls"}},
        {"type": "tool_use", "id": "", "name": "look", "input": {}},
    ]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "a.txt"} for call in first["content"][1:]]
    after = [*ASK, {"role": "assistant", "content": first["content"]}, {"role": "user", "content": results}]
    second = (await ask(client, messages=after, tools=[TOOL])).json()
    assert second["content"] == [{"type": "text", "text": "All done."}]
    assert second["stop_reason"] == "end_turn"
    # All but the last token of the first prompt and reply is found again, as with chats.
    used, again = first["usage"], second["usage"]
    assert again["cache_read_input_tokens"] == used["input_tokens"] + used["output_tokens"] - 1


async def test_a_chat_and_a_message_of_the_same_words_share_their_prefix(serve: Any) -> None:
    client = serve()
    used = (await client.post("/v1/chat/completions", {"messages": ASK, "max_tokens": 1})).json()["usage"]
    message = (await ask(client, max_tokens=1)).json()["usage"]
    assert message["cache_read_input_tokens"] == used["prompt_tokens"] - 1
    counted = (await client.post("/v1/messages/count_tokens", body())).json()
    assert counted == {"input_tokens": used["prompt_tokens"]}


@pytest.mark.parametrize("reply", [BOTH, REASONED, {"content": "Fine."}, {"tool_calls": CALLS}, {"content": ""}])
async def test_a_stream_adds_up_to_the_whole_reply(serve: Any, reply: Any) -> None:
    whole, events = serve(), serve()
    for client in whole, events:
        await script(client, reply)
    said = (await ask(whole, tools=[TOOL])).json()
    told = (await ask(events, tools=[TOOL], stream=True)).named()
    assert told[0]["type"] == "message_start"
    assert told[-1] == {"type": "message_stop"}
    blocks: list[Any] = []
    for event in told:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            for name, new in delta.items():
                if name != "type":
                    blocks[event["index"]][name] = blocks[event["index"]].get(name, "") + new
    for block in blocks:
        if "partial_json" in block:
            block["input"] = json.loads(block.pop("partial_json"))
    assert [{**b, "id": ""} for b in blocks] == [{**b, "id": ""} for b in said["content"] if b != EMPTY]
    (last,) = [event for event in told if event["type"] == "message_delta"]
    assert last["delta"] == {"stop_reason": said["stop_reason"]}
    assert last["usage"] == {"output_tokens": said["usage"]["output_tokens"]}
    if blocks:
        assert told[0]["message"]["usage"] == said["usage"] | {"output_tokens": 0}


EMPTY = {"type": "text", "text": ""}


async def test_blocks_are_opened_and_closed_one_after_the_other(serve: Any) -> None:
    client = serve()
    await script(client, REASONED)
    kinds = [event["type"] for event in (await ask(client, stream=True)).named()]
    edges = [kind for kind in kinds if kind in ("content_block_start", "content_block_stop")]
    assert edges == ["content_block_start", "content_block_stop"] * 3


async def test_a_reply_that_is_cut_calls_no_tool(serve: Any) -> None:
    client = serve()
    await script(client, BOTH)
    reply = (await ask(client, max_tokens=2)).json()
    assert reply["stop_reason"] == "max_tokens"
    assert [block["type"] for block in reply["content"]] == ["text"]


async def test_arguments_that_are_no_object_become_an_empty_one(serve: Any) -> None:
    client = serve()
    await script(client, {"tool_calls": [{"name": "bash", "arguments": "not JSON"}]})
    assert (await ask(client)).json()["content"][0]["input"] == {}


async def test_without_the_cache_report_nothing_is_told_of_the_cache(serve: Any) -> None:
    client = serve(enable_cache_report=False)
    used = [(await ask(client, max_tokens=1)).json()["usage"] for _ in range(2)]
    assert used[0] == used[1]
    assert "cache_read_input_tokens" not in used[0]


@pytest.mark.parametrize("anywhere", [True, False])
async def test_system_messages_stay_where_a_template_shows_them(serve: Any, anywhere: bool) -> None:
    client = serve()
    client.service.tokenizer.system_anywhere = anywhere
    talk = [*ASK, {"role": "system", "content": "Hurry."}, {"role": "user", "content": "And?"}]
    chat = [talk[1], talk[0], talk[2]] if not anywhere else talk
    used = (await client.post("/v1/chat/completions", {"messages": chat, "max_tokens": 1})).json()["usage"]
    message = (await ask(client, messages=talk, max_tokens=1)).json()["usage"]
    assert message["cache_read_input_tokens"] == used["prompt_tokens"] - 1


async def full(serve: Any) -> Any:
    """A server whose queue is full."""
    client = serve(max_running_requests=1, max_queued_requests=1)
    return client, await client.held(client.post("/generate", {"input_ids": [1, 2, 3]}))


async def test_a_full_queue_is_told_of_in_the_api_s_own_words(serve: Any) -> None:
    client, waiting = await full(serve)
    refused = await client.post("/v1/messages", body())
    assert (refused.status, refused.json()["error"]) == (
        503,
        {"type": "overloaded_error", "message": "Internal server error"},
    )
    started, error, stopped = (await client.post("/v1/messages", body(stream=True))).named()
    assert started["message"]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert error["error"] == {"type": "overloaded_error", "message": "The request queue is full."}
    assert stopped == {"type": "message_stop"}
    client.service.driver.resume()
    assert (await waiting).status == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_an_aborted_reply_ends_its_turn(serve: Any, stream: bool) -> None:
    client = serve()
    asked = await client.held(ask(client, stream=stream))
    await client.post("/abort_request", {"abort_all": True})
    reply = await asked
    said = reply.named()[-2]["delta"] if stream else reply.json()
    assert said["stop_reason"] == "end_turn"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_that_breaks_is_an_api_error(serve: Any, stream: bool) -> None:
    client = serve()

    def fail(**_: Any) -> None:
        raise RuntimeError("broken")

    client.service.scheduler.step = fail
    reply = await client.post("/v1/messages", body(stream=stream))
    error = reply.named()[-2]["error"] if stream else reply.json()["error"]
    assert error["type"] == "api_error"
    assert stream or (reply.status, error["message"]) == (500, "Internal server error")


async def test_a_client_that_leaves_ends_its_request(serve: Any) -> None:
    client = serve()
    leave = asyncio.Event()
    sent = json.dumps(body(stream=True)).encode()
    headers = {"content-type": "application/json"}
    call = await client.held(client.call("POST", "/v1/messages", sent, headers, leave))
    leave.set()
    await call
    assert client.service.scheduler.idle


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
BLOCKS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "image", "thinking"]) | JSON},
    optional={name: JSON | st.just([{"type": "text", "text": "x"}]) for name in ("text", "name", "input", "content")},
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system"]), "content": st.lists(BLOCKS) | JSON}
    )
)
FIELDS = ["system", "stream", "tools", "tool_choice", "max_tokens", "model", "user"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(
    path=st.sampled_from(["/v1/messages", "/v1/messages/count_tokens"]),
    messages=MESSAGES | JSON,
    fields=st.dictionaries(st.sampled_from(FIELDS), JSON | st.lists(BLOCKS, max_size=2), max_size=3),
)
async def test_no_body_breaks_the_server(serve: Any, path: str, messages: Any, fields: Any) -> None:
    client = serve()
    answer = await client.post(path, body(messages=messages, **fields))
    assert answer.status in (200, 400)
    if answer.status == 400:
        assert answer.json()["type"] == "error"
    assert (await client.post("/v1/messages", body(max_tokens=1))).status == 200
