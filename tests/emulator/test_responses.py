"""OpenAI's Responses API: what its recorded comparison with SGLang cannot reach."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TOOL = {"type": "function", "name": "bash", "parameters": {"type": "object"}}
PATCH = {"type": "custom", "name": "patch"}
ASK = [{"role": "user", "content": "Look around."}]
CALL = {"name": "bash", "arguments": {"cmd": "ls"}}
BOTH = {"content": "Let me see.", "tool_calls": [CALL, {"name": "patch", "arguments": {"input": "*** new"}}]}
REASONED = {"content": "Yes.", "reasoning": "Let me think.", "tool_calls": [CALL]}
DONE = ("response.completed", "response.incomplete", "response.failed")


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "model", "input": ASK, **fields}


async def ask(client: Any, **fields: Any) -> Any:
    answer = await client.post("/v1/responses", body(**fields), x_session_id="s")
    assert answer.status == 200, answer.text
    return answer


async def script(client: Any, *replies: Any) -> None:
    assert (await client.post("/emulator/scripts", {"session_id": "s", "replies": list(replies)})).status == 200


async def test_a_scripted_agent_calls_its_tools_and_then_ends(serve: Any) -> None:
    client = serve()
    await script(client, BOTH, {"content": "All done."})
    first = (await ask(client, tools=[TOOL, PATCH])).json()
    said, call, patch = first["output"]
    assert (said["content"][0]["text"], said["phase"]) == ("Let me see.", "commentary")
    assert (call["type"], call["name"], call["arguments"]) == ("function_call", "bash", '{"cmd": "ls"}')
    assert (patch["type"], patch["name"], patch["input"]) == ("custom_tool_call", "patch", "*** new")
    results = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "a.txt"},
        {"type": "custom_tool_call_output", "call_id": patch["call_id"], "output": [{"type": "x", "text": "ok"}]},
    ]
    second = (await ask(client, input=[*ASK, *first["output"], *results], tools=[TOOL, PATCH])).json()
    assert second["output"][0]["content"][0]["text"] == "All done."
    assert (second["status"], second["output"][0]["phase"]) == ("completed", "final_answer")


async def test_a_turn_of_two_phases_parts_from_what_was_generated(serve: Any) -> None:
    """As with SGLang: an agent that says something before its calls finds less of its turn in the cache."""
    found = []
    for reply in ({"tool_calls": [CALL]}, {"content": "Let me see.", "tool_calls": [CALL]}):
        client = serve()
        await script(client, reply)
        first = (await ask(client, tools=[TOOL])).json()
        output = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "a.txt"}
        second = (await ask(client, input=[*ASK, *first["output"], output], tools=[TOOL])).json()
        missed = first["usage"]["total_tokens"] - second["usage"]["input_tokens_details"]["cached_tokens"]
        found.append(missed == 1)
    assert found == [True, False]


async def test_items_of_one_turn_without_phases_are_one_message(serve: Any) -> None:
    client = serve()
    await script(client, {"content": "Let me see.", "tool_calls": [CALL]})
    first = (await ask(client, tools=[TOOL])).json()
    items = [{name: value for name, value in item.items() if name != "phase"} for item in first["output"]]
    second = (await ask(client, input=[*ASK, *items, *ASK], tools=[TOOL])).json()
    assert second["usage"]["input_tokens_details"]["cached_tokens"] == first["usage"]["total_tokens"] - 1


async def test_a_chat_and_a_response_to_the_same_words_share_their_prefix(serve: Any) -> None:
    client = serve()
    chat = [{"role": "system", "content": "Be brief."}, *ASK]
    used = (await client.post("/v1/chat/completions", {"messages": chat, "max_tokens": 1})).json()["usage"]
    response = (await ask(client, instructions="Be brief.", max_output_tokens=3)).json()["usage"]
    assert response["input_tokens"] == used["prompt_tokens"]
    assert response["input_tokens_details"]["cached_tokens"] == used["prompt_tokens"] - 1


@pytest.mark.parametrize("tools", [[], [TOOL, PATCH]])
@pytest.mark.parametrize("summary", [None, "auto"])
@pytest.mark.parametrize("reply", [BOTH, REASONED, {"content": "Fine."}, {"tool_calls": [CALL]}, {"content": ""}])
async def test_a_stream_adds_up_to_the_whole_reply(serve: Any, reply: Any, summary: Any, tools: Any) -> None:
    whole, events = serve(), serve()
    asked = {"tools": tools, "reasoning": {"summary": summary}, "include": ["reasoning.encrypted_content"]}
    for client in whole, events:
        await script(client, reply)
    said = (await ask(whole, **asked)).json()
    told = (await ask(events, stream=True, **asked)).named()
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert [event["type"] for event in told[:2]] == ["response.created", "response.in_progress"]
    assert told[-1]["type"] == "response.completed"
    assert anonymous(told[-1]["response"]) == anonymous(said)
    done = [event["item"] for event in told if event["type"] == "response.output_item.done"]
    opened = [event["item"] for event in told if event["type"] == "response.output_item.added"]
    assert [item["id"] for item in opened] == [item["id"] for item in done]
    for index, item in enumerate(done):
        deltas = [event for event in told if event.get("output_index") == index and event["type"].endswith(".delta")]
        assert "".join(event["delta"] for event in deltas) == words(item)
        assert {event["item_id"] for event in deltas} <= {item["id"]}


def words(item: Any) -> str:
    if item["type"] in ("message", "reasoning"):
        return str(item["content"][0]["text"])
    return str(item.get("arguments", item.get("input")))


def anonymous(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: anonymous(v) for name, v in value.items() if name not in ("id", "call_id", "created_at")}
    return [anonymous(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("tools", [[], [TOOL]])
async def test_text_is_held_back_while_calls_may_follow(serve: Any, tools: Any) -> None:
    client = serve()
    await script(client, {"content": "Let me see.", "tool_calls": [CALL]})
    told = (await ask(client, stream=True, tools=tools)).named()
    (phase,) = {event["item"]["phase"] for event in told if event.get("item", {}).get("type") == "message"}
    assert phase == ("commentary" if tools else "final_answer")
    ended = told[-1]["response"]["output"][0]
    assert ended["phase"] == "commentary"


async def test_a_summary_has_events_of_its_own(serve: Any) -> None:
    client = serve()
    await script(client, REASONED)
    for summary, kind in ((None, "response.reasoning_text.delta"), ("auto", "response.reasoning_summary_text.delta")):
        told = (await ask(client, stream=True, reasoning={"summary": summary})).named()
        assert kind in [event["type"] for event in told]


async def test_two_tokens_of_a_limit_are_kept_free(serve: Any) -> None:
    reply = (await ask(serve(), max_output_tokens=9)).json()
    assert (reply["usage"]["output_tokens"], reply["max_output_tokens"]) == (7, 9)
    assert (reply["status"], reply["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


async def test_cached_tokens_are_told_without_the_cache_report_too(serve: Any) -> None:
    client = serve(enable_cache_report=False)
    used = [(await ask(client, max_output_tokens=3)).json()["usage"]["input_tokens_details"] for _ in range(2)]
    assert used[0]["cached_tokens"] == 0 < used[1]["cached_tokens"]


async def test_a_full_queue_is_a_bad_request(serve: Any) -> None:
    """Which no client tries again; as with SGLang."""
    client = serve(max_running_requests=1, max_queued_requests=1)
    waiting = await client.held(client.post("/generate", {"input_ids": [1, 2, 3]}))
    refused = await client.post("/v1/responses", body())
    assert refused.status == 400
    assert refused.json()["error"] == {
        "message": "503: The request queue is full.",
        "type": "invalid_request_error",
        "param": None,
        "code": 400,
    }
    last = (await client.post("/v1/responses", body(stream=True))).named()[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"] == {"code": "server_error", "message": "The request queue is full."}
    assert last["response"]["usage"]["total_tokens"] == 0
    client.service.driver.resume()
    assert (await waiting).status == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_an_aborted_response_has_failed(serve: Any, stream: bool) -> None:
    client = serve()
    asked = await client.held(ask(client, stream=stream))
    await client.post("/abort_request", {"abort_all": True})
    answer = await asked
    reply = answer.named()[-1]["response"] if stream else answer.json()
    assert (reply["status"], reply["error"]["code"]) == ("failed", "server_error")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_that_breaks_is_told_of(serve: Any, stream: bool) -> None:
    client = serve()

    def fail(**_: Any) -> None:
        raise RuntimeError("broken")

    client.service.scheduler.step = fail
    answer = await client.post("/v1/responses", body(stream=stream))
    error = (answer.named()[-1]["response"] if stream else answer.json())["error"]
    assert "broken" in error["message"]


async def test_a_client_that_leaves_ends_its_request(serve: Any) -> None:
    client = serve()
    leave = asyncio.Event()
    sent = json.dumps(body(stream=True)).encode()
    headers = {"content-type": "application/json"}
    call = await client.held(client.call("POST", "/v1/responses", sent, headers, leave))
    leave.set()
    await call
    assert client.service.scheduler.idle


@pytest.mark.parametrize("anywhere", [True, False])
async def test_what_a_developer_says_is_the_system_s(serve: Any, anywhere: bool) -> None:
    client = serve()
    client.service.tokenizer.system_anywhere = anywhere
    late = {"role": "system", "content": "Developer instructions:\nHurry."}
    chat = [*ASK, late] if anywhere else [late, *ASK]
    used = (await client.post("/v1/chat/completions", {"messages": chat, "max_tokens": 1})).json()["usage"]
    items = [*ASK, {"role": "developer", "content": "Hurry."}]
    response = (await ask(client, input=items, max_output_tokens=3)).json()["usage"]
    assert response["input_tokens_details"]["cached_tokens"] == used["prompt_tokens"] - 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = ["message", "function_call", "function_call_output", "custom_tool_call", "reasoning"]
ITEMS = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS) | JSON},
    optional={
        "role": st.sampled_from(["user", "assistant", "developer"]) | JSON,
        **dict.fromkeys(("content", "name", "arguments", "input", "output", "call_id", "phase"), JSON),
    },
)
FIELDS = ["stream", "tools", "tool_choice", "max_output_tokens", "model", "reasoning", "include", "text", "metadata"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(
    items=st.lists(ITEMS, max_size=4) | JSON,
    fields=st.dictionaries(st.sampled_from(FIELDS), JSON | st.just([TOOL]), max_size=3),
)
async def test_no_body_breaks_the_server(serve: Any, items: Any, fields: Any) -> None:
    client = serve()
    answer = await client.post("/v1/responses", body(input=items, **fields))
    assert answer.status in (200, 400, 404)
    if answer.status != 200:
        assert answer.json()["error"]["code"] == answer.status
    assert (await client.post("/v1/responses", body(max_output_tokens=3))).status == 200
