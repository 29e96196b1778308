"""A front before the emulator: a script's words, the engine's work and figures, and everything else passed on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import pytest
import urllib3
from openai import BadRequestError, OpenAI

from benchmarks.engines.engine import connect
from benchmarks.front.app import create_app
from concur_agents.emulator import Emulator, EngineConfig, ServiceConfig

CALL = {"name": "bash", "arguments": {"command": "ls"}}
REPLIES = [
    {"content": "I look around.", "tool_calls": [CALL], "output_tokens": 20},
    {"content": "Done.", "tool_calls": None, "output_tokens": 5},
]
TASK = {"role": "user", "content": "Fix it, please. " * 20}


@pytest.fixture
def client(front: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{front}/v1", api_key="none", max_retries=0) as client:
        yield client


def register(url: str, session: str = "a", **more: Any) -> None:
    body = {"session_id": session, "replies": REPLIES, **more}
    assert urllib3.request("POST", f"{url}/emulator/scripts", json=body).status == 200


def ask(client: OpenAI, messages: list[Any], session: str = "a", **more: Any) -> Any:
    headers = {"X-Session-ID": session}
    return client.chat.completions.create(model="words", messages=messages, extra_headers=headers, **more)


def test_a_script_says_the_words_and_the_engine_the_figures(front: str, client: OpenAI) -> None:
    register(front)
    reply = ask(client, [TASK])
    (choice,) = reply.choices
    assert (choice.message.content, choice.finish_reason) == ("I look around.", "tool_calls")
    assert json.loads(choice.message.tool_calls[0].function.arguments) == {"command": "ls"}
    assert (reply.usage.completion_tokens, reply.usage.prompt_tokens_details.cached_tokens) == (20, 0)
    assert reply.usage.prompt_tokens == pytest.approx(len(TASK["content"]) / 4, abs=8)


def test_a_conversation_finds_all_that_it_had(front: str, client: OpenAI) -> None:
    register(front)
    first = ask(client, [TASK])
    said = first.choices[0].message
    answer = {"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": "a.py"}
    second = ask(client, [TASK, said.model_dump(exclude_none=True), answer])
    assert (second.choices[0].message.content, second.choices[0].finish_reason) == ("Done.", "stop")
    # All but the last token that was generated, which no pass of the engine has read.
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.total_tokens - 1


def test_a_client_that_names_nobody_is_known_by_its_task(front: str, client: OpenAI) -> None:
    register(front, match="Fix it")
    assert ask(client, [TASK], session="")


def test_a_stream_says_the_same(front: str, client: OpenAI) -> None:
    register(front)
    chunks = list(ask(client, [TASK], stream=True, stream_options={"include_usage": True}))
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "I look around."
    assert [call.function.name for delta in deltas for call in delta.tool_calls or ()] == ["bash"]
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "tool_calls"
    assert (chunks[-1].usage.completion_tokens, chunks[-1].choices) == (20, [])


def test_a_streamed_conversation_finds_all_that_it_had(front: str, client: OpenAI) -> None:
    register(front)
    *_, last = ask(client, [TASK], stream=True, stream_options={"include_usage": True})
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    said = {
        "role": "assistant",
        "content": "I look around.",
        "tool_calls": [{"id": "c", "type": "function", "function": function}],
    }
    second = ask(client, [TASK, said, {"role": "tool", "tool_call_id": "c", "content": "a.py"}])
    assert second.usage.prompt_tokens_details.cached_tokens >= last.usage.total_tokens - 1


def test_with_wider_tokens_all_is_shorter_alike(emulator: Emulator, serve: Callable[[Any], str]) -> None:
    url = serve(create_app(emulator.url, characters=16))
    register(url)
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        reply = ask(client, [TASK])
    assert reply.usage.completion_tokens == 5
    assert reply.usage.prompt_tokens == pytest.approx(len(TASK["content"]) / 16, abs=4)


def test_who_has_no_script_or_comes_to_its_end_is_told(front: str, client: OpenAI) -> None:
    with pytest.raises(BadRequestError, match="no script for turn 0 of session 'b'"):
        ask(client, [TASK], session="b")
    register(front)
    said = {"role": "assistant", "content": "x"}
    with pytest.raises(BadRequestError, match="no script for turn 2"):
        ask(client, [TASK, said, TASK, said, TASK])


@pytest.mark.parametrize("stream", [False, True])
def test_the_engines_refusal_is_passed_on(serve: Callable[[Any], str], *, stream: bool) -> None:
    config = ServiceConfig(engine=EngineConfig(context_length=64), speedup=1000)
    with Emulator(config) as emulator:
        url = serve(create_app(emulator.url))
        register(url)
        with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            if not stream:
                with pytest.raises(BadRequestError, match="context length"):
                    ask(client, [TASK])
            else:
                body = {"model": "words", "messages": [TASK], "stream": True}
                reply = urllib3.request("POST", f"{url}/v1/chat/completions", json=body, headers={"X-Session-ID": "a"})
                assert "context length" in reply.data.decode()


def test_an_engine_that_is_gone_is_said(serve: Callable[[Any], str]) -> None:
    url = serve(create_app("http://127.0.0.1:9"))
    register(url)
    body = {"model": "words", "messages": [TASK], "session_id": "a"}
    assert urllib3.request("POST", f"{url}/v1/chat/completions", json=body).status == 502
    assert urllib3.request("GET", f"{url}/metrics").status == 502


def test_what_is_no_chat_is_refused(front: str) -> None:
    for body in ({}, {"messages": "hello"}, {"messages": ["hello"]}):
        assert urllib3.request("POST", f"{front}/v1/chat/completions", json=body).status == 400
    register(front)
    odd = {"messages": [{"role": "user", "content": 7}], "session_id": "a"}
    assert urllib3.request("POST", f"{front}/v1/chat/completions", json=odd).status == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/health"), ("GET", "/v1/models"), ("POST", "/flush_cache"), ("GET", "/nowhere")],
)
def test_all_else_is_the_engines_own_answer(front: str, emulator: Emulator, method: str, path: str) -> None:
    ours, its = (urllib3.request(method, f"{url}{path}") for url in (front, emulator.url))
    assert (ours.status, ours.data, ours.headers.get("content-type")) == (
        *(its.status, its.data, its.headers.get("content-type")),
    )


async def test_it_describes_itself_as_its_engine_does_and_has_its_metrics(front: str, emulator: Emulator) -> None:
    ours, its = await connect(front), await connect(emulator.url)
    assert (ours.name, ours.model, ours.scheduling) == (its.name, its.model, its.scheduling)
    reader = ours.reader()
    try:
        assert (await asyncio.to_thread(reader.read, 5.0)).capacity_tokens == its.capacity_tokens
    finally:
        reader.close()
    await ours.flush()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_generation_whose_client_leaves_is_ended(serve: Callable[[Any], str], *, stream: bool) -> None:
    with Emulator(ServiceConfig(speedup=1.0)) as emulator:  # so slow that it is not over before
        url = serve(create_app(emulator.url))
        register(url, replies=[{"content": "x" * 4000, "output_tokens": 2000}])
        chat = {"model": "words", "messages": [TASK], "session_id": "a", "stream": stream}

        async def running(count: int) -> None:
            while len(emulator.service.scheduler.running) != count:  # noqa: ASYNC110 - another thread's state
                await asyncio.sleep(0.01)

        async with aiohttp.ClientSession() as session:
            asking = asyncio.create_task(session.post(f"{url}/v1/chat/completions", json=chat))
            async with asyncio.timeout(30):
                await running(1)
            asking.cancel()
            response = (await asyncio.gather(asking, return_exceptions=True))[0]
            if isinstance(response, aiohttp.ClientResponse):
                response.close()
            async with asyncio.timeout(30):
                await running(0)
