"""What is read of replies as they pass, however they are cut into pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concur_agents.gateway.replies import ReplyWatch
from concur_agents.usage import TokenUsage

USAGE = {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 6}}
KNOWN = TokenUsage(prompt=10, cached=6, output=4)


def events(*items: Any, end: str = "data: [DONE]\n\n") -> bytes:
    return ("".join(f"data: {json.dumps(item)}\n\n" for item in items) + end).encode()


def chunk(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}, "finish_reason": None}], "usage": None} | more


def watch(body: bytes, kind: str, *, status: int = 200, encoding: str = "", size: int = 7) -> ReplyWatch:
    seen = ReplyWatch(status, kind, encoding)
    for start in range(0, len(body), size):
        seen.feed(body[start : start + size])
    seen.end()
    return seen


STREAM = "text/event-stream; charset=utf-8"
CHAT = events(
    chunk("a"), chunk("b", usage={**USAGE, "completion_tokens": 1}), chunk("c"), {"choices": [], "usage": USAGE}
)
MESSAGES = events(
    {
        "type": "message_start",
        "message": {"usage": {"input_tokens": 4, "cache_read_input_tokens": 6, "output_tokens": 1}},
    },
    {"type": "content_block_delta", "delta": {"text": "x"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
    end="",
)
RESPONSES = events(
    {"type": "response.created", "response": {"id": "r1", "object": "response", "usage": None}},
    {
        "type": "response.completed",
        "response": {
            "id": "r1",
            "object": "response",
            "usage": {"input_tokens": 10, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 6}},
        },
    },
    end="",
)
NATIVE = events(
    *(
        {"text": "a" * n, "meta_info": {"prompt_tokens": 10, "completion_tokens": n, "cached_tokens": 6}}
        for n in range(5)
    )
)


@pytest.mark.parametrize("body", [CHAT, MESSAGES, RESPONSES, NATIVE], ids=["chat", "messages", "responses", "generate"])
@pytest.mark.parametrize("size", [1, 3, 50, 10_000])
def test_the_usage_of_streams(body: bytes, size: int) -> None:
    seen = watch(body, STREAM, size=size)
    assert seen.usage == KNOWN
    assert seen.ended


@pytest.mark.parametrize(
    "reply",
    [
        {"choices": [{"message": {"content": "x"}, "finish_reason": "length"}], "usage": USAGE},
        {"type": "message", "usage": {"input_tokens": 4, "cache_read_input_tokens": 6, "output_tokens": 4}},
        {"text": "x", "meta_info": {"prompt_tokens": 10, "completion_tokens": 4, "cached_tokens": 6}},
        [{"text": "x", "meta_info": {"prompt_tokens": 10, "completion_tokens": 4, "cached_tokens": 6}}],
    ],
    ids=["chat", "messages", "generate", "generate with a list"],
)
def test_the_usage_of_whole_replies(reply: Any) -> None:
    assert watch(json.dumps(reply).encode(), "application/json").usage == KNOWN


def test_a_stream_that_does_not_tell_its_usage_is_unknown() -> None:
    assert watch(events(chunk("a"), chunk("b")), STREAM).usage == TokenUsage()


@pytest.mark.parametrize(
    ("status", "encoding", "kind"),
    [(500, "", "application/json"), (200, "gzip", "application/json"), (404, "", STREAM)],
)
def test_errors_and_compressed_replies_tell_nothing(status: int, encoding: str, kind: str) -> None:
    body = CHAT if kind == STREAM else json.dumps({"usage": USAGE}).encode()
    assert watch(body, kind, status=status, encoding=encoding).usage == TokenUsage()


@pytest.mark.parametrize(
    ("choice", "ends"),
    [
        ({"message": {"content": "done"}, "finish_reason": "stop"}, True),
        ({"message": {"content": "", "tool_calls": [{"id": "c"}]}, "finish_reason": "tool_calls"}, False),
        ({"message": {"content": "", "tool_calls": [{"id": "c"}]}, "finish_reason": "stop"}, False),
        ({"message": {"content": "cut"}, "finish_reason": "length"}, False),
    ],
)
def test_a_reply_without_a_call_ends_the_turn(choice: dict[str, Any], ends: bool) -> None:
    assert watch(json.dumps({"choices": [choice]}).encode(), "application/json").ends_turn is ends


def test_replies_of_the_responses_api_have_a_name() -> None:
    assert watch(RESPONSES, STREAM).response_id == "r1"
    assert watch(b'{"object": "response", "id": "r2"}', "application/json").response_id == "r2"


def test_a_long_reply_is_not_kept() -> None:
    seen = ReplyWatch(200, "application/json")
    for _ in range(40):
        seen.feed(b"x" * 2**20)
        assert len(seen._rest) <= 16 * 2**20
    seen.end()
    assert seen.usage == TokenUsage()


def test_a_line_without_end_is_not_kept() -> None:
    seen = ReplyWatch(200, STREAM)
    for _ in range(100):
        seen.feed(b"x" * 2**17)
        assert len(seen._rest) <= 2**20 + 2**17
    seen.feed(b"\n\n" + events({"usage": USAGE}))
    seen.end()
    assert seen.usage == KNOWN


@given(st.binary(max_size=200), st.sampled_from(["application/json", STREAM, "", "text/html"]), st.integers(1, 50))
def test_no_bytes_are_too_odd(body: bytes, kind: str, size: int) -> None:
    watch(body, kind, size=size)
    watch(b'data: {"usage": {"prompt_tokens"' + body, kind, size=size)


@pytest.mark.parametrize(
    "text",
    [
        "null",
        "1",
        '"x"',
        "[]",
        "[1, 2]",
        '{"choices": 1}',
        '{"choices": [1]}',
        '{"output": [1]}',
        '{"choices": [{"message": {"tool_calls": 1}}]}',
        '{"response": 1}',
        '{"usage": 1}',
        '{"id": 1, "object": "response"}',
    ],
)
def test_json_of_any_shape_is_no_error(text: str) -> None:
    assert watch(text.encode(), "application/json").usage == TokenUsage()
    assert watch(f'data: {text} "usage": {{\n'.encode(), STREAM).usage == TokenUsage()


@pytest.mark.parametrize("name", ["finish", "submit", "final_answer", "attempt_completion"])
def test_a_call_that_ends_a_task_ends_it_in_replies_and_streams(name: str) -> None:
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}
    whole = {"choices": [{"message": {"content": "", "tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    assert watch(json.dumps(whole).encode(), "application/json").ends_turn
    assert watch(events({"choices": [{"delta": {"tool_calls": [call]}}]}), STREAM, size=10_000).ends_turn
    call["function"] = {"name": "bash", "arguments": "{}"}
    assert not watch(json.dumps(whole).encode(), "application/json").ends_turn
