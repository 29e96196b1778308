"""OpenAI's client when something is wrong: it tries again, waits, or gives up, as it does without a gateway."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import openai
import pytest

CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "List the files of this project."}],
    "max_tokens": 9,
}
JSON = {"Content_Type": "application/json"}
WHOLE = json.dumps(
    {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "at last"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }
).encode()


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_retries_an_error_of_the_engine_as_without_a_gateway(
    kit: Any, sglang: Any, status: int, stream: bool
) -> None:
    event = WHOLE.replace(b'"message"', b'"delta"').replace(b"chat.completion", b"chat.completion.chunk")
    good = kit.reply_of(200, b"data: " + event + b"\n\ndata: [DONE]\n\n", Content_Type="text/event-stream")
    asked = CHAT | {"user": f"{status} {stream}"}
    known = len(sglang.served.gateway.roster)
    for url in sglang.urls:
        left = [kit.reply_of(status, b'{"message": "busy"}', Retry_After_Ms="1", **JSON)] * 2
        left.append(good if stream else kit.reply_of(200, WHOLE, **JSON))
        sglang.answers = left
        sglang.engine.requests.clear()
        with openai.OpenAI(base_url=url + "/v1", api_key="none") as client:
            reply = client.chat.completions.create(**asked, stream=stream)
            said = next(iter(reply)).choices[0].delta if stream else reply.choices[0].message
            assert said.content == "at last"
        assert [tried(request) for request in sglang.engine.requests] == [b"0", b"1", b"2"]
    assert len(sglang.served.gateway.roster) == known + 1  # each try is the same agent's


def tried(request: bytes) -> bytes:
    head = request.lower().partition(b"\r\n\r\n")[0]
    return head.partition(b"x-stainless-retry-count: ")[2].partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "error", [b'{"error": {"code": 503}}', b'{"object":"error","code":503}', b'{"type": "error", "error": {}}']
)
def test_a_conversation_after_an_error_inside_a_stream_is_still_the_same_agent_s(
    kit: Any, sglang: Any, error: bytes
) -> None:
    """SGLang has begun a stream by the time it knows that its queue is full."""
    known = len(sglang.served.gateway.roster)
    body = b"data: " + error + b"\n\ndata: [DONE]\n\n"
    sglang.answers = [kit.reply_of(200, body, Content_Type="text/event-stream")]
    with openai.OpenAI(base_url=sglang.served.url + "/v1", api_key="none") as client:
        for _ in range(3):
            with contextlib.suppress(openai.APIError):
                list(client.chat.completions.create(**CHAT | {"user": error.decode()}, stream=True))
    assert len(sglang.served.gateway.roster) == known + 1


@pytest.mark.parametrize("stream", [False, True])
def test_an_error_that_stays_is_the_same_exception_after_as_many_tries(kit: Any, sglang: Any, stream: bool) -> None:
    message = b'{"message": "The request queue is full.", "code": 503}'
    sglang.answers = [kit.reply_of(503, message, Retry_After_Ms="1", **JSON)]
    raised = []
    for url in sglang.urls:
        sglang.engine.requests.clear()
        with (
            openai.OpenAI(base_url=url + "/v1", api_key="none") as client,
            pytest.raises(openai.InternalServerError) as caught,
        ):
            client.chat.completions.create(**CHAT, stream=stream)
        raised.append((str(caught.value), caught.value.body))
        assert len(sglang.engine.requests) == 3
    assert raised[0] == raised[1]


# --- waiting: for a seat, and for an engine ---


@pytest.mark.parametrize("stream", [False, True])
def test_a_wait_that_is_longer_than_all_tries_ends_in_the_reply(kit: Any, wire: Any, stream: bool) -> None:
    """Two tries are answered with 503; the last one is held, with signs of life that the client does not see."""
    statuses: list[int] = []

    def finish(response: Any) -> None:
        statuses.append(response.status_code)
        if response.status_code == 200:
            served.gateway.roster.finish("first")

    with wire.emulator() as engine, wire.serve(engine.url, window=1, hold=0.01, heartbeat=0.01) as served:
        with openai.OpenAI(base_url=served.url + "/v1", api_key="none") as client:
            client.chat.completions.create(**CHAT, extra_headers={"X-Session-ID": "first"})
        http = openai.DefaultHttpxClient(event_hooks={"response": [finish]})
        with openai.OpenAI(base_url=served.url + "/v1", api_key="none", http_client=http) as client:
            held = choices(client.chat.completions.create(**CHAT | {"max_tokens": 7}, stream=stream), kit)
        with openai.OpenAI(base_url=engine.url + "/v1", api_key="none") as client:
            plain = choices(client.chat.completions.create(**CHAT | {"max_tokens": 7}, stream=stream), kit)
    assert statuses == [503, 503, 200]
    assert held == plain


def choices(reply: Any, kit: Any) -> Any:
    """Of a reply; of a stream its text and why it ended, however it was cut."""
    if not isinstance(reply, openai.Stream):
        return kit.kept(reply.model_dump(warnings=False))["choices"]
    chosen = [choice for chunk in reply for choice in chunk.choices]
    text = "".join(choice.delta.content or "" for choice in chosen)
    return text, [choice.finish_reason for choice in chosen if choice.finish_reason]


def test_a_client_that_gives_up_on_the_engine_leaves_nothing_behind(wire: Any, ways: Any) -> None:
    with openai.OpenAI(base_url=ways.through, api_key="none") as control:
        control.post("/pause_generation", body={"mode": "in_place"}, cast_to=object)
        with (
            openai.OpenAI(base_url=ways.through + "/v1", api_key="none", timeout=0.2, max_retries=1) as client,
            pytest.raises(openai.APITimeoutError),
        ):
            client.chat.completions.create(**CHAT)
        # Both tries were one agent's, which is at its boundary now, and known still.
        wire.until(lambda: [member.open for member in ways.served.gateway.roster] == [0])
        control.post("/continue_generation", body={}, cast_to=object)
        with openai.OpenAI(base_url=ways.through + "/v1", api_key="none") as client:
            client.chat.completions.create(**CHAT)
    assert len(ways.served.gateway.roster) == 1


async def test_a_task_that_is_cancelled_leaves_nothing_behind(wire: Any, ways: Any) -> None:
    async with openai.AsyncOpenAI(base_url=ways.through + "/v1", api_key="none") as client:
        for cut in range(2):
            stream = await client.chat.completions.create(**CHAT | {"max_tokens": 2000}, stream=True)
            if cut:
                await anext(stream)
            await stream.close()
        task = asyncio.create_task(client.chat.completions.create(**CHAT | {"max_tokens": 100_000}))
        await asyncio.to_thread(wire.until, lambda: any(member.open for member in ways.served.gateway.roster))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(wire.until, lambda: not any(member.open for member in ways.served.gateway.roster))
        assert (await client.chat.completions.create(**CHAT)).choices
