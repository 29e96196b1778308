"""The APIs of messages and responses against real SGLang 0.5.23: the same requests, compared field by field.

`make test` replays what the real server said. To compare with a live one, or to record anew, write the benchmarks'
model, whose tokens are words, with a chat template that shows tools, and start a fresh server on it:

    python -m benchmarks.engines.sglang_cpu.model words
    cp tests/emulator/model/chat_template.jinja words/
    python -m sglang.launch_server --model-path words --load-format dummy --served-model-name words \\
        --max-total-tokens 16000 --context-length 8192 --page-size 1 --enable-metrics --enable-cache-report \\
        --skip-server-warmup --disable-overlap-schedule --tool-call-parser pythonic \\
        --constrained-json-disable-any-whitespace

    CONCUR_REAL_ENGINE_URL=http://127.0.0.1:30000 CONCUR_RECORD=1 pytest tests/emulator/test_apis_against_sglang.py

Without CONCUR_RECORD the live answers are compared and nothing is written.
"""

import importlib.util
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import urllib3
import vcr  # type: ignore[import-untyped]

from benchmarks.engines.sglang_cpu.model import write_model
from concur_agents.emulator import CostModel, Emulator, EngineConfig, ServiceConfig
from concur_agents.emulator.hf import HuggingFaceTokenizer
from concur_agents.emulator.scripts import ScriptedReply

HERE = Path(__file__).parent
CASSETTE = HERE / "cassettes" / "sglang-0.5.23-messages-responses.yaml"
LIVE = os.environ.get("CONCUR_REAL_ENGINE_URL")
RECORD = bool(os.environ.get("CONCUR_RECORD"))
NOBODY = "http://engine"

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("jinja2") is None, reason="without jinja2 the emulator cannot render the chat template"
)

BASH: dict[str, Any] = {"name": "bash"}
COMMAND = {"cmd": {"type": "string", "enum": ["ls"]}}
SCHEMA: dict[str, Any] = {"type": "object", "properties": COMMAND, "required": ["cmd"], "additionalProperties": False}
LONG = "~" * 9000
OTHER = [{"role": "user", "content": " wow"}]  # whose reply nothing else is to find in the cache
THINKS = {"type": "thinking", "thinking": " zoz", "signature": "s"}
USES: Any = {"type": "tool_use", "id": "call_1", "name": "bash", "input": {"cmd": "ls"}}
RESULT: Any = {
    "type": "tool_result",
    "tool_use_id": "call_1",
    "content": [{"type": "text", "text": " bab"}, {"type": "text", "text": " cac"}],
}
TALK: list[Any] = [
    {"role": "user", "content": " bab cac dad"},
    {"role": "assistant", "content": [THINKS, {"type": "text", "text": " fof"}, USES]},
    {"role": "user", "content": [RESULT, {"type": "text", "text": " gag"}, {"type": "text", "text": " hah"}]},
    {"role": "assistant", "content": [USES]},
    {"role": "user", "content": [{"type": "text", "text": " jaj"}, {**RESULT, "content": " kak"}]},
]
TOOL = {"name": "bash", "description": "Run it.", "input_schema": SCHEMA}
REDACTED = {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}
M: dict[str, Any] = {"model": "words", "max_tokens": 6, "temperature": 0, "messages": TALK[:1]}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
ONE: dict[str, Any] = {"disable_parallel_tool_use": True}
CALLED = {"messages": OTHER, "tools": [TOOL], "max_tokens": 60}
MESSAGES: dict[str, Any] = {
    "whole": M,
    "again": M,
    "system": M | {"system": " lal mam", "messages": TALK[:3]},
    "system-parts": M | {"system": [{"type": "text", "text": " lal"}, {"type": "text", "text": " mam"}]},
    "system-inline": M | {"messages": [*TALK[:1], {"role": "system", "content": " lal "}, TALK[2]]},
    "stream": M | {"messages": TALK[:3], "stream": True},
    "tools": M | {"messages": TALK, "tools": [TOOL, SEARCH]},
    "tools-stream": M | {"messages": TALK, "tools": [TOOL], "stream": True},
    "tools-none": M | {"messages": TALK, "tools": [TOOL], "tool_choice": {"type": "none"}},
    "tools-bare": M | {"tools": [{"name": "look", "input_schema": {"properties": {}}, "strict": True}]},
    "calls": M | CALLED | {"tool_choice": ONE | {"type": "any"}},
    "calls-stream": M | CALLED | {"tool_choice": ONE | BASH | {"type": "tool"}, "stream": True},
    "empty": M | {"messages": []},
    "nothing": {},
    "no-limit": {"model": "words", "messages": TALK[:1]},
    "limit-0": M | {"max_tokens": 0},
    "limit-text": M | {"max_tokens": "many"},
    "limit-beyond": M | {"max_tokens": 9000},
    "limit-beyond-stream": M | {"max_tokens": 9000, "stream": True},
    "limit-and-prompt": M | {"max_tokens": 8190},
    "limit-and-prompt-stream": M | {"max_tokens": 8190, "stream": True},
    "long": M | {"messages": [{"role": "user", "content": LONG}]},
    "long-stream": M | {"messages": [{"role": "user", "content": LONG}], "stream": True},
    "role": M | {"messages": [{"role": "tool", "content": ""}]},
    "content": M | {"messages": [{"role": "user", "content": 5}]},
    "block": M | {"messages": [{"role": "user", "content": [{"type": "x"}]}]},
    "redacted": M
    | {"messages": [*TALK[:1], {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}]},
    "no-such-tool": M | {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "look"}},
    "only-server-tools": M | {"tools": [SEARCH], "tool_choice": {"type": "any"}},
}
COUNTED = ("whole", "system", "tools", "nothing", "redacted")

CALL: Any = {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": '{"cmd": "ls"}'}
OUTPUT: Any = {"type": "function_call_output", "call_id": "call_1", "output": " bab cac"}
SAID = {"type": "output_text", "text": " fof", "annotations": []}
SPOKEN: Any = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [SAID]}
ASK: Any = {"role": "user", "content": " bab cac dad"}
FUNCTION: Any = {"type": "function", "name": "bash", "description": "Run it.", "parameters": SCHEMA}
R: dict[str, Any] = {"model": "words", "max_output_tokens": 8, "temperature": 0, "input": [ASK]}
CALLED_2 = {"input": OTHER, "tools": [FUNCTION], "max_output_tokens": 60, "parallel_tool_calls": False}
RESPONSES: dict[str, Any] = {
    "whole": R,
    "text": R | {"input": " bab cac dad"},
    "instructions": R | {"instructions": " lal mam", "input": [ASK, SPOKEN, ASK]},
    "developer": R | {"instructions": " lal", "input": [{"role": "developer", "content": " mam"}, ASK]},
    "developer-parts": R
    | {"input": [ASK, {"role": "developer", "content": [{"type": "input_text", "text": t} for t in (" lal", " mam")]}]},
    "stream": R | {"input": [ASK, SPOKEN, ASK], "stream": True},
    "tools": R | {"tools": [FUNCTION, {"type": "web_search"}], "input": [ASK, SPOKEN, CALL, OUTPUT]},
    "tools-phases": R | {"tools": [FUNCTION], "input": [ASK, {**SPOKEN, "phase": "commentary"}, CALL, CALL, OUTPUT]},
    "tools-stream": R | {"tools": [FUNCTION], "input": [ASK, CALL, OUTPUT], "stream": True},
    "tools-none": R | {"tools": [FUNCTION], "tool_choice": "none"},
    "tools-none-stream": R | {"tools": [FUNCTION], "tool_choice": "none", "stream": True},
    "custom": R | {"tools": [{"type": "custom", "name": "patch", "description": "Patch it."}]},
    "calls": R | CALLED_2 | {"tool_choice": "required"},
    "calls-named": R | CALLED_2 | {"tool_choice": BASH | {"type": "function"}},
    "calls-stream": R | CALLED_2 | {"tool_choice": "required", "stream": True},
    "echo": R
    | {
        "reasoning": {"effort": "low", "summary": "auto"}, "metadata": {"a": "b"}, "user": "u", "store": False,
        "parallel_tool_calls": False, "top_p": 1.0, "truncation": "auto", "text": {"format": {"type": "text"}},
        "request_id": "resp_mine", "include": ["reasoning.encrypted_content"],
    },
    "limit-2": R | {"max_output_tokens": 2},
    "limit-2-stream": R | {"max_output_tokens": 2, "stream": True},
    "limit-1": R | {"max_output_tokens": 1},
    "limit-1-stream": R | {"max_output_tokens": 1, "stream": True},
    "nothing": {},
    "input-number": R | {"input": 5},
    "input-empty": R | {"input": []},
    "no-model": {name: R[name] for name in ("input", "max_output_tokens", "temperature")},
    "other-model": R | {"model": "m"},
    "adapter": R | {"model": "words:none"},
    "previous": R | {"previous_response_id": "resp_1"},
    "background": R | {"background": True},
    "unknown-item": R | {"input": [{"type": "nonsense"}]},
    "long": R | {"input": LONG},
    "long-stream": R | {"input": LONG, "stream": True},
    "limit-and-prompt": R | {"max_output_tokens": 8190},
    "required-without": R | {"tool_choice": "required"},
    "no-such-tool": R | {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "look"}},
    "logprobs-stream": R | {"stream": True, "include": ["message.output_text.logprobs"]},
    "shell": R | {"tools": [{"type": "shell"}]},
    "bad-tool": R | {"tools": [{"type": "x"}]},
    "nameless-tool": R | {"tools": [{"type": "function"}]},
}  # fmt: skip

CALLS = [("POST", "/v1/messages", name) for name in MESSAGES]
CALLS += [("POST", "/v1/messages/count_tokens", name) for name in COUNTED]
CALLS += [("GET", "/v1/messages", ""), ("GET", "/v1/messages/nope", "")]
CALLS += [("POST", "/v1/responses", name) for name in RESPONSES]
CALLS += [
    ("GET", "/v1/responses/resp_1", ""),
    ("POST", "/v1/responses/resp_1/cancel", ""),
    ("GET", "/v1/responses", ""),
]
BODIES = {"/v1/messages": MESSAGES, "/v1/messages/count_tokens": MESSAGES, "/v1/responses": RESPONSES}


def play(url: str) -> dict[Any, Any]:
    """All calls, in order: what is cached is a part of the answers."""
    played = {}
    with urllib3.PoolManager(timeout=300, retries=False) as pool:
        assert pool.request("POST", url + "/flush_cache").status == 200
        for call in CALLS:
            method, path, name = call
            body = None if method == "GET" else json.dumps(BODIES.get(path, {"": {}})[name]).encode()
            headers = {
                "Content-Type": "application/json",
                "Connection": "close",
                "X-Session-ID": f"{path} {name}",  # which script, for the emulator
            }
            reply = pool.request(method, f"{url}{path}?{name}", body=body, headers=headers)
            played[call] = reply.status, reply.headers.get("content-type"), reply.data.decode()
    return played


def scrub_request(request: Any) -> Any:
    request.uri = NOBODY + request.path + ("?" + request.uri.partition("?")[2] if "?" in request.uri else "")
    request.headers = {}
    return request


def scrub_response(response: Any) -> Any:
    """Without headers that nobody compares, and paths of the real server."""
    kind = response["headers"].get("content-type", response["headers"].get("Content-Type", [""]))
    text = re.sub(r'File \\?".*?\\?", line \d+, in \w+', "", response["body"]["string"].decode())
    return {**response, "headers": {"content-type": kind}, "body": {"string": text.encode()}}


@pytest.fixture(scope="module", params=["cassette", pytest.param("live", marks=pytest.mark.real_engine)])
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the real server and the emulator answered."""
    live = request.param == "live"
    if live and LIVE is None:
        pytest.skip("CONCUR_REAL_ENGINE_URL is not set")
    if not live and RECORD:
        pytest.skip("recording")
    recorder = vcr.VCR(
        record_mode="all" if RECORD else "none",
        match_on=("method", "path", "query", "body"),
        before_record_request=scrub_request,
        before_record_response=scrub_response,
    )
    if RECORD:
        CASSETTE.unlink(missing_ok=True)  # vcr would add to it
    if live and not RECORD:
        real = play(LIVE or "")
    else:
        with recorder.use_cassette(str(CASSETTE)):
            real = play(LIVE if live and LIVE else NOBODY)
    model = tmp_path_factory.mktemp("model")
    write_model(model)
    shutil.copy(HERE / "model" / "chat_template.jinja", model)
    engine = EngineConfig(max_total_tokens=16_000, context_length=8192, chunked_prefill_size=2048)
    cost = CostModel(prefill_token_s=1e-3, decode_base_s=1e-2)
    config = ServiceConfig(engine=engine, cost=cost, model="words", speedup=1e5)
    with Emulator(config, tokenizer=HuggingFaceTokenizer(model)) as emulator:
        for _, path, name in CALLS:
            if name.startswith("calls"):
                tokens = int(re.findall(r'"output_tokens":(\d+)', real["POST", path, name][2])[-1])
                call = {"tool_calls": [{"name": "bash", "arguments": '{"cmd": "ls"}'}], "output_tokens": tokens}
                emulator.service.scripts.register(f"{path} {name}", [ScriptedReply.parse(call, "reply")])
        return real, play(emulator.url)


QUOTED = re.compile(r"Input should|Field required|validation error|Value error")
ITS_OWN = {"id", "item_id", "call_id", "created_at", "text", "delta", "thinking", "partial_json", "sequence_number"}


def told(value: Any, name: str = "") -> Any:
    """A reply without what is each one's own: names, times, and what the model says."""
    if name in ITS_OWN and not isinstance(value, dict):
        return type(value).__name__
    if isinstance(value, dict):
        return {key: told(inner, key) for key, inner in value.items()}
    return [told(inner) for inner in value] if isinstance(value, list) else value


def events_of(text: str) -> list[dict[str, Any]]:
    """Each named as its object says."""
    events = []
    for block in filter(None, text.split("\n\n")):
        name, _, data = block.partition("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


def comparable(reply: Any) -> Any:
    """Status, type and content; of a text's events one, since arrival decides how it is cut."""
    status, kind, text = reply
    if not str(kind).startswith("text/event-stream"):
        return status, kind, told(json.loads(text))
    kept: list[Any] = []
    for event in map(told, events_of(text)):
        if not kept or event != kept[-1]:
            kept.append(event)
    return status, kind, kept


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_a_reply_is_the_real_one_field_by_field(played: Any, call: Any) -> None:
    real, ours = (comparable(side[call]) for side in played)
    for _, _, reply in real, ours:
        # What pydantic says is quoted by SGLang, and imitated in sense only.
        if isinstance(reply, dict) and QUOTED.search(str((reply.get("error") or {}).get("message"))):
            reply["error"]["message"] = "quoted"
    assert ours == real


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_the_events_of_a_response_are_numbered_in_order(played: Any, call: Any) -> None:
    for side in played:
        _, kind, text = side[call]
        if call[1] == "/v1/responses" and str(kind).startswith("text/event-stream"):
            numbers = [event["sequence_number"] for event in events_of(text)]
            assert numbers == list(range(len(numbers)))
