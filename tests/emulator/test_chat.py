from typing import Any

import pytest

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
ASK = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": "Look around."}]
CALL = {"content": "Let me see.", "tool_calls": [{"name": "bash", "arguments": {"cmd": "ls -l"}}]}


async def chat(client: Any, messages: list[Any] | None = None, **fields: Any) -> Any:
    headers = fields.pop("headers", {})
    answer = await client.post("/v1/chat/completions", {"messages": messages or ASK, **fields}, **headers)
    assert answer.status == 200, answer.text
    return answer


async def script(client: Any, *replies: Any, session: str = "s") -> None:
    answer = await client.post("/emulator/scripts", {"session_id": session, "replies": list(replies)})
    assert answer.json() == {"session_id": session, "replies": len(replies)}


async def test_a_reply_has_the_shape_of_the_real_one(serve: Any) -> None:
    reply = (await chat(serve(), max_tokens=4, rid="mine", model="any")).json()
    assert reply | {"created": 0} == {
        "id": "mine",
        "object": "chat.completion",
        "created": 0,
        "model": "any",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": reply["choices"][0]["message"]["content"],
                    "reasoning_content": None,
                },
                "logprobs": None,
                "finish_reason": "length",
                "matched_stop": None,
            }
        ],
        "usage": {
            "prompt_tokens": 19,
            "total_tokens": 23,
            "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 0},
            "reasoning_tokens": 0,
            "completion_tokens_details": None,
        },
        "metadata": {
            "weight_version": "default",
            "weight_versions": [{"version": "default", "start": 0, "end": 4}],
        },
    }
    assert len(reply["choices"][0]["message"]["content"]) == 4 * 4


async def test_the_next_turn_reuses_prompt_and_reply(serve: Any) -> None:
    client = serve()
    first = (await chat(client, max_tokens=8)).json()
    said = first["choices"][0]["message"]["content"]
    after = [*ASK, {"role": "assistant", "content": said}, {"role": "user", "content": "More."}]
    second = (await chat(client, after, max_tokens=1)).json()
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == first["usage"]["total_tokens"] - 1


async def test_filler_is_the_same_for_the_same_seed(serve: Any) -> None:
    texts = [
        (await chat(serve(seed=seed), max_tokens=8)).json()["choices"][0]["message"]["content"] for seed in (1, 1, 2)
    ]
    assert texts[0] == texts[1] != texts[2]


async def test_without_a_limit_a_reply_stops_by_itself(serve: Any) -> None:
    reply = (await chat(serve())).json()
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert reply["usage"]["completion_tokens"] == 128


async def test_ignore_eos_without_a_limit_fills_the_context(serve: Any) -> None:
    reply = (await chat(serve(context_length=200), ignore_eos=True)).json()
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["total_tokens"] == 198


async def test_a_scripted_agent_calls_its_tool_and_then_ends(serve: Any) -> None:
    client = serve()
    await script(client, CALL, {"content": "All done."})
    first = (await chat(client, tools=TOOLS, headers={"x-session-id": "s"})).json()["choices"][0]
    call = first["message"]["tool_calls"][0]
    assert first["finish_reason"] == "tool_calls"
    assert first["message"]["content"] == "Let me see."
    assert call["function"] == {"name": "bash", "arguments": '{"cmd": "ls -l"}'}
    after = [*ASK, first["message"], {"role": "tool", "tool_call_id": call["id"], "content": "a.txt"}]
    second = (await chat(client, after, tools=TOOLS, headers={"x-session-id": "s"})).json()
    assert second["choices"][0]["finish_reason"] == "stop"
    assert second["choices"][0]["message"] == {
        "role": "assistant",
        "content": "All done.",
        "reasoning_content": None,
    }


async def test_a_retry_gets_the_same_reply(serve: Any) -> None:
    client = serve()
    await script(client, {"content": "first"}, {"content": "second"})
    texts = [(await chat(client, session_id="s")).json()["choices"][0]["message"]["content"] for _ in range(2)]
    assert texts == ["first", "first"]


@pytest.mark.parametrize(
    "naming", [{"headers": {"x-session-id": "s"}}, {"session_id": "s"}, {"user": "s"}, {"session_id": "s", "user": "t"}]
)
async def test_a_session_is_named_by_header_or_body(serve: Any, naming: Any) -> None:
    client = serve()
    await script(client, {"content": "scripted"})
    assert (await chat(client, **naming)).json()["choices"][0]["message"]["content"] == "scripted"


async def test_a_script_is_found_by_the_first_user_message(serve: Any) -> None:
    client = serve()
    found = {"session_id": "s", "match": "task 7", "replies": [{"content": "first"}, {"content": "second"}]}
    assert (await client.post("/emulator/scripts", found)).status == 200
    talk: list[Any] = [{"role": "user", "content": "Do task 7."}]
    for text in ("first", "second"):
        talk += [(await chat(client, talk)).json()["choices"][0]["message"], {"role": "user", "content": "Go on."}]
        assert talk[-2]["content"] == text


async def test_past_its_end_a_script_gives_way_to_filler(serve: Any) -> None:
    client = serve()
    await script(client)
    assert (await chat(client, session_id="s", max_tokens=5)).json()["usage"]["completion_tokens"] == 5


async def test_output_tokens_forces_the_length_of_a_reply(serve: Any) -> None:
    client = serve()
    await script(client, {"content": "Short.", "output_tokens": 50}, {"content": "Long. " * 50, "output_tokens": 3})
    first = (await chat(client, session_id="s")).json()
    after = [*ASK, first["choices"][0]["message"], {"role": "user", "content": "And?"}]
    second = (await chat(client, after, session_id="s")).json()
    assert [r["usage"]["completion_tokens"] for r in (first, second)] == [50, 3]
    assert [r["choices"][0]["message"]["content"] for r in (first, second)] == ["Short.", "Long. " * 50]
    # The rendered reply and its end token were generated, so the next turn finds them.
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == first["usage"]["prompt_tokens"] + 3


async def test_max_tokens_cuts_a_scripted_reply_and_drops_its_calls(serve: Any) -> None:
    client = serve()
    await script(client, CALL)
    choice = (await chat(client, session_id="s", max_tokens=2, tools=TOOLS)).json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]
    assert "Let me see.".startswith(choice["message"]["content"])


async def test_reasoning_is_shown_apart(serve: Any) -> None:
    client = serve()
    await script(client, {"content": "Yes.", "reasoning": "Let me think."})
    message = (await chat(client, session_id="s")).json()["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Yes.", "Let me think.")


async def test_a_deleted_script_is_gone(serve: Any) -> None:
    client = serve()
    await script(client, {"content": "x"}, session="a/b")
    assert (await client.call("DELETE", "/emulator/scripts/a/b", b"", {})).status == 200
    assert (await client.call("DELETE", "/emulator/scripts/a/b", b"", {})).status == 404


async def test_usage_hides_the_cache_without_the_report(serve: Any) -> None:
    reply = (await chat(serve(enable_cache_report=False), max_tokens=1)).json()
    assert reply["usage"]["prompt_tokens_details"] is None


async def test_a_stream_adds_up_to_the_whole_reply(serve: Any) -> None:
    whole = (await chat(serve(), max_tokens=8)).json()
    stream = await chat(serve(), max_tokens=8, stream=True, stream_options={"include_usage": True})
    first, *deltas, last, usage = stream.events()
    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert first["choices"][0]["delta"] == {"reasoning_content": None, "role": "assistant", "content": ""}
    assert (
        "".join(event["choices"][0]["delta"]["content"] for event in deltas)
        == (whole["choices"][0]["message"]["content"])
    )
    assert last["choices"][0]["finish_reason"] == "length"
    assert (usage["choices"], usage["usage"]) == ([], whole["usage"])


async def test_a_stream_tells_no_usage_unless_asked(serve: Any) -> None:
    stream = await chat(serve(), max_tokens=2, stream=True)
    assert not any("usage" in event for event in stream.events())


async def test_a_streamed_tool_call_arrives_name_first(serve: Any) -> None:
    client = serve()
    await script(client, CALL)
    events = (await chat(client, session_id="s", stream=True, tools=TOOLS)).events()
    deltas = [event["choices"][0]["delta"] for event in events]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Let me see."
    assert calls[0]["id"].startswith("call_")
    assert [call["function"] for call in calls] == [
        {"name": "bash", "arguments": ""},
        {"name": None, "arguments": '{"cmd": "ls -l"}'},
    ]
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_plain_completions_continue_a_text(serve: Any) -> None:
    client = serve()
    reply = (await client.post("/v1/completions", {"prompt": "hello world!", "max_tokens": 3})).json()
    assert (reply["object"], reply["choices"][0]["finish_reason"]) == ("text_completion", "length")
    assert reply["usage"]["prompt_tokens"] == 3
    assert len(reply["choices"][0]["text"]) == 12


async def test_plain_completions_stream(serve: Any) -> None:
    client = serve()
    body = {"prompt": [1, 2, 3], "stream": True, "stream_options": {"include_usage": True}}
    *deltas, usage = (await client.post("/v1/completions", body)).events()
    assert len("".join(event["choices"][0]["text"] for event in deltas)) == 16 * 4
    assert usage["usage"]["prompt_tokens"] == 3
