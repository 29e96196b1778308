"""OpenAI's client and what SGLang really said: byte for byte, whole and streamed, and its usage seen on the way."""

from __future__ import annotations

import json
from typing import Any

import openai

RECORDED = ("sglang-0.5.23.yaml", "/v1/", "POST")
CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "List the files of this project."}],
    "max_tokens": 9,
}


def raw_call(url: str, interaction: Any) -> Any:
    """What the client makes of a recorded reply, to the same request."""
    body = json.loads(interaction["request"]["body"])
    with openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0) as client:
        chat = interaction["request"]["uri"].endswith("/chat/completions")
        create: Any = client.chat.completions if chat else client.completions
        given: dict[str, Any] = {"model": "m", "messages" if chat else "prompt": [], "stream": bool(body.get("stream"))}
        try:
            with create.with_streaming_response.create(**given, extra_body=body) as streamed:
                raw = streamed.read()
            reply = create.create(**given, extra_body=body)
        except openai.APIStatusError as error:
            return type(error), str(error), error.body, error.response.content
        parsed = (
            [chunk.model_dump(warnings=False) for chunk in reply]
            if given["stream"]
            else reply.model_dump(warnings=False)
        )
        return raw, parsed


def test_what_sglang_really_said_arrives_byte_for_byte(kit: Any, sglang: Any, interaction: Any) -> None:
    sglang.answers = [kit.as_sent(interaction)]
    sglang.engine.requests.clear()
    direct, through = (raw_call(url, interaction) for url in sglang.urls)
    assert direct == through
    assert interaction["response"]["body"]["string"].encode() in direct
    asked = [request.partition(b"\r\n\r\n")[2] for request in sglang.engine.requests]
    assert len(asked) % 2 == 0
    assert asked[: len(asked) // 2] == asked[len(asked) // 2 :]
    assert kit.idle(sglang)


def test_usage_that_sglang_reports_is_seen_on_the_way(kit: Any, sglang: Any) -> None:
    """Whole and streamed; of streams, where the client asked for it. Short prompts of completions are nobody's."""
    seen = 0
    for interaction in kit.recorded(*RECORDED):
        text, uri = interaction["response"]["body"]["string"], interaction["request"]["uri"]
        if interaction["response"]["status"]["code"] != 200 or '"usage":{' not in text or "/chat/" not in uri:
            continue
        prompt, output = last_usage(text)
        sglang.answers = [kit.as_sent(interaction)]
        before = sglang.served.controller.stats()
        raw_call(sglang.served.url, interaction)
        after = sglang.served.controller.stats()
        assert after.prompt_tokens - before.prompt_tokens == 2 * prompt  # asked twice
        assert after.output_tokens - before.output_tokens == 2 * output
        seen += 1
    assert seen == 9


def last_usage(text: str) -> tuple[int, int]:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n")] if text.startswith("data: ") else [text]
    usage = [said for line in lines if line.startswith("{") and (said := json.loads(line).get("usage"))][-1]
    return usage["prompt_tokens"], usage["completion_tokens"]


def test_a_raw_reply_has_the_engine_s_head_and_body(ways: Any) -> None:
    heads = []
    for url in ways.urls:
        with openai.OpenAI(base_url=url + "/v1", api_key="none") as client:
            raw = client.chat.completions.with_raw_response.create(**CHAT)
            assert raw.retries_taken == 0
            assert json.loads(raw.content)["usage"]
            heads.append({name: value for name, value in raw.headers.items() if name != "date"})
    assert heads[0] == heads[1]


def test_lines_of_a_stream_are_the_engine_s(kit: Any, sglang: Any) -> None:
    streamed = next(each for each in kit.recorded(*RECORDED) if '"include_usage":true' in each["request"]["body"])
    sglang.answers = [kit.as_sent(streamed)]
    lines = []
    for url in sglang.urls:
        with (
            openai.OpenAI(base_url=url + "/v1", api_key="none") as client,
            client.chat.completions.with_streaming_response.create(**CHAT, stream=True) as reply,
        ):
            lines.append(list(reply.iter_lines()))
    assert lines[0] == lines[1]
    assert "data: [DONE]" in lines[0]
