"""The emulator against real SGLang 0.5.23: the same requests, compared answer by answer, with a tolerance of zero.

`make test` replays what the real server said from cassettes. To compare with a live server, or to record anew, start
a fresh one (its counters must be new: every 32nd prefill renews the prefixes of the queue) on the model beside this
file, whose weights are random:

    python -m sglang.launch_server --model-path tests/emulator/model --load-format dummy --served-model-name model \\
        --max-total-tokens 600 --chunked-prefill-size 64 --context-length 8192 --page-size 1 --enable-metrics \\
        --enable-cache-report --skip-server-warmup --disable-overlap-schedule --decode-log-interval 40

    CONCUR_REAL_ENGINE_URL=http://127.0.0.1:30000 CONCUR_RECORD=1 pytest tests/emulator/test_against_sglang.py

Without CONCUR_RECORD the live answers are compared and nothing is written. Batches go as one request with a list of
prompts, since only then does the real scheduler see them all at once.
"""

import importlib.util
import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3
import vcr  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from concur_agents.emulator import CostModel, Emulator, EngineConfig, ServiceConfig
from concur_agents.emulator.hf import HuggingFaceTokenizer

HERE = Path(__file__).parent
LIVE = os.environ.get("CONCUR_REAL_ENGINE_URL")
RECORD = bool(os.environ.get("CONCUR_RECORD"))
NOBODY = "http://engine"  # where the cassettes say they were recorded

INFO = (
    "max_total_num_tokens",
    "page_size",
    "context_length",
    "chunked_prefill_size",
    "max_prefill_tokens",
    "schedule_conservativeness",
    "decode_log_interval",
    "version",
)
JINJA = importlib.util.find_spec("jinja2") is not None
needs_jinja = pytest.mark.skipif(
    not JINJA, reason="without jinja2 the emulator cannot render the model's chat template"
)

TIMED = re.compile(r"_seconds|gen_throughput|_created|fwd_occupancy|http_")
UNIMITATED = {
    # Times inside the real server that mean nothing here.
    "storage_prefetch_wait",
    "storage_staging_wait",
    "forward_entry_time",
    "prefill_finished_time",
    "weight_versions",
    "api_server_dispatch_finish_ts",
    "response_sent_to_client_ts",
    "decode_throughput",
}


@dataclass
class Exchange:
    """One request, and what came back: a JSON object, the objects of a stream, or text."""

    scenario: str
    method: str
    path: str
    body: Any
    status: int = 0
    reply: Any = None


class Wire:
    """Sends exchanges to a server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._pool = urllib3.PoolManager(timeout=300, retries=False)

    def send(self, scenario: str, path: str, body: Any = None, method: str = "POST") -> Exchange:
        data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json", "Accept": "text/plain", "Connection": "close"}
        response = self._pool.request(method, self.url + path, body=data, headers=headers)
        return Exchange(scenario, method, path, body, response.status, _parse(response.data.decode()))

    def close(self) -> None:
        self._pool.clear()


def _parse(text: str) -> Any:
    if text.startswith("data: "):
        lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
        assert lines.pop() == "[DONE]"
        return [json.loads(line) for line in lines]
    try:
        return json.loads(text)
    except ValueError:
        return text


# What is played. Each scenario starts on an empty cache and yields its exchanges as the real server answers them.

Send = Callable[..., Exchange]


def agents(
    send: Send,
    name: str,
    *,
    seed: int,
    agents: int,
    rounds: int,
    first: tuple[int, int],
    new: tuple[int, int],
    eos: bool,
) -> Iterator[Exchange]:
    """Agents with a common prefix take turns, alone and in batches; some go back and branch off."""
    rng = random.Random(seed)

    def some(count: int) -> list[int]:
        return [rng.randrange(6, 262) for _ in range(count)]

    shared = some(20)
    contexts = {agent: shared + some(rng.randint(*first)) for agent in range(agents)}
    for turn in range(rounds):
        who = rng.sample(range(agents), rng.choice([1, 2, agents // 2, agents]))
        for agent in who:
            if rng.random() < 0.2:
                contexts[agent] = contexts[agent][: rng.randint(10, len(contexts[agent]))] + some(5)
        batch = {
            "rid": [f"{name}-{turn}-{agent}" for agent in who],
            "input_ids": [contexts[agent] for agent in who],
            "sampling_params": [
                {"max_new_tokens": rng.randint(*new), "temperature": 0, "ignore_eos": not eos} for _ in who
            ],
        }
        exchange = send(name, "/generate", batch)
        yield exchange
        for agent, reply in zip(who, exchange.reply, strict=True):
            contexts[agent] = contexts[agent] + reply["output_ids"] + some(rng.randint(2, 12))
            if len(contexts[agent]) > 220:
                contexts[agent] = shared + some(rng.randint(*first))


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a command.",
            "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]},
        },
    }
]
CHAT: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "List the files."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "bash", "arguments": '{"cmd":"ls"}'}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "a.txt\nb \u00e9.txt"},
    {"role": "assistant", "content": "Two files."},
    {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
]


def chats(send: Send, name: str) -> Iterator[Exchange]:
    """A conversation that grows, with and without tools, whole and streamed."""
    base: dict[str, Any] = {"model": "model", "temperature": 0, "ignore_eos": True, "max_tokens": 2}
    usage: dict[str, Any] = {"stream_options": {"include_usage": True}}
    for count in (2, 4, 6):
        for extra in ({}, {"tools": TOOLS}, {"stream": True, **usage}, {"tools": TOOLS, "stream": True}):
            yield send(name, "/v1/chat/completions", {**base, "messages": CHAT[:count], **extra})
    yield send(name, "/v1/completions", {"model": "model", "prompt": "hello", **base})
    yield send(name, "/v1/completions", {"model": "model", "prompt": "hello", "stream": True, **base, **usage})
    yield send(name, "/generate", {"text": "hello, world", "sampling_params": {"max_new_tokens": 1, "temperature": 0}})
    yield send(name, "/generate", {"input_ids": [9, 8, 7], "sampling_params": {"max_new_tokens": 0}})


def errors(send: Send, name: str) -> Iterator[Exchange]:
    """Requests that are refused."""
    user = [{"role": "user", "content": "hi"}]
    chat = {"model": "model", "messages": user}
    refused: list[Any] = [
        {},
        {"model": "model", "messages": []},
        {"model": "model", "messages": "hi"},
        {**chat, "max_tokens": -1},
        {**chat, "max_tokens": 9000},
        {"model": "model", "messages": [{"role": "user", "content": "x" * 9000}], "max_tokens": 1},
        {**chat, "max_tokens": "many"},
    ]
    for body in refused:
        yield send(name, "/v1/chat/completions", body)
    yield send(name, "/v1/completions", {"model": "model"})
    yield send(name, "/v1/completions", {"model": "model", "prompt": ""})
    wrong: list[Any] = [{}, {"input_ids": []}, {"input_ids": [9], "sampling_params": {"max_new_tokens": -1}}, []]
    for body in wrong:
        yield send(name, "/generate", body)
    yield send(name, "/generate", {"input_ids": [9], "sampling_params": {"max_new_tokens": 9000}})
    yield send(name, "/nope", {})
    yield send(name, "/v1/chat/completions", method="GET")


SCENARIOS: dict[str, Callable[[Send, str], Iterator[Exchange]]] = {
    "turns": lambda send, name: agents(send, name, seed=1, agents=4, rounds=10, first=(10, 40), new=(2, 12), eos=False),
    "eviction": lambda send, name: agents(
        send, name, seed=2, agents=9, rounds=8, first=(40, 110), new=(2, 12), eos=False
    ),
    "retraction": lambda send, name: agents(
        send, name, seed=4, agents=4, rounds=6, first=(5, 20), new=(250, 400), eos=True
    ),
    "chats": chats,
    "errors": errors,
}


def play(wire: Wire, pause: float) -> dict[str, list[Exchange]]:
    """All scenarios on the real server, with its metrics before and after."""
    played: dict[str, list[Exchange]] = {"info": [wire.send("info", "/server_info", method="GET")]}
    played["before"] = [wire.send("before", "/metrics", method="GET")]
    for name, scenario in SCENARIOS.items():
        assert wire.send(name, "/flush_cache?before=" + name).status == 200
        played[name] = list(scenario(wire.send, name))
    time.sleep(pause)  # a live server idles, and reports that it does, a moment after its last answer
    played["metrics"] = [wire.send("metrics", "/metrics", method="GET")]
    return played


def repeat(real: dict[str, list[Exchange]], emulator: Wire) -> dict[str, list[Exchange]]:
    """The same requests, generating the same tokens, on the emulator."""
    played = {}
    for name in SCENARIOS:
        emulator.send(name, "/flush_cache")
        played[name] = [emulator.send(name, e.path, _forced(e), e.method) for e in real[name]]
    played["metrics"] = [emulator.send("metrics", "/metrics", method="GET")]
    return played


def _forced(exchange: Exchange) -> Any:
    """A batch with the outputs the real server gave."""
    if not isinstance(exchange.reply, list) or exchange.path != "/generate":
        return exchange.body
    params = [
        {**param, "custom_params": {"output_ids": reply["output_ids"]}}
        for param, reply in zip(exchange.body["sampling_params"], exchange.reply, strict=True)
    ]
    return {**exchange.body, "sampling_params": params}


# Recording


def _scrub_request(request: Any) -> Any:
    request.uri = NOBODY + request.path + ("?" + request.uri.partition("?")[2] if "?" in request.uri else "")
    request.headers = {}
    return request


def _scrub_response(response: Any) -> Any:
    """Keep what is compared; leave out paths, times and the many metrics nobody reads."""
    kind = next(iter(response["headers"].get("content-type", response["headers"].get("Content-Type", [""]))))
    text = response["body"]["string"].decode()
    if text.startswith("# HELP"):
        kept = [line for line in text.splitlines() if line.startswith("sglang:") and not TIMED.search(line)]
        text = "\n".join(line for line in kept if "_bucket{" not in line) + "\n"
    elif text.startswith("{") and '"internal_states"' in text:
        info = json.loads(text)
        state = {"effective_max_running_requests_per_dp": _most_running(info)}
        text = json.dumps({**{name: info[name] for name in INFO}, "internal_states": [state]})
    elif text.startswith(("{", "[")) and '"output_ids"' in text:
        replies = json.loads(text)
        for reply in replies if isinstance(replies, list) else [replies]:
            for name in UNIMITATED:
                reply["meta_info"].pop(name, None)
        text = json.dumps(replies, separators=(",", ":"))
    text = re.sub(r'File \\".*?\\", line \d+, in \w+', "", text)
    return {**response, "headers": {"content-type": [kind]}, "body": {"string": text.encode()}}


def _most_running(info: Any) -> int:
    return int(info["internal_states"][0]["effective_max_running_requests_per_dp"])


@pytest.fixture(scope="module", params=["cassette", pytest.param("live", marks=pytest.mark.real_engine)])
def played(request: pytest.FixtureRequest) -> tuple[dict[str, list[Exchange]], dict[str, list[Exchange]]]:
    """What the real server and the emulator answered."""
    live = request.param == "live"
    if live and LIVE is None:
        pytest.skip("CONCUR_REAL_ENGINE_URL is not set")
    if not live and RECORD:
        pytest.skip("recording")
    recorder = vcr.VCR(
        record_mode="all" if RECORD else "none",
        match_on=("method", "path", "query", "body"),
        before_record_request=_scrub_request,
        before_record_response=_scrub_response,
    )
    cassette = HERE / "cassettes" / "sglang-0.5.23.yaml"
    if RECORD:
        cassette.unlink(missing_ok=True)  # vcr would add to it
    real = Wire(LIVE if live and LIVE else NOBODY)
    if live and not RECORD:
        answers = play(real, pause=1)
    else:
        with recorder.use_cassette(str(cassette)):
            answers = play(real, pause=1 if live else 0)
    real.close()
    info = answers["info"][0].reply
    engine = EngineConfig(
        max_total_tokens=info["max_total_num_tokens"],
        max_running_requests=_most_running(info),
        **{name: info[name] for name in INFO if name in EngineConfig.__dataclass_fields__},
    )
    config = ServiceConfig(
        engine=engine, cost=CostModel(prefill_token_s=1e-3, decode_base_s=1e-2), model="model", speedup=1e5
    )
    tokenizer = HuggingFaceTokenizer(HERE / "model") if JINJA else None
    with Emulator(config, tokenizer=tokenizer) as emulator:
        wire = Wire(emulator.url)
        ours = repeat(answers, wire)
        wire.close()
    return answers, ours


# Comparison

Played = tuple[dict[str, list[Exchange]], dict[str, list[Exchange]]]
COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cached_tokens_details", "num_retractions")


def _counts(reply: Any) -> Any:
    meta = reply["meta_info"]
    return {name: meta[name] for name in COUNTS}, meta["finish_reason"]["type"], reply["output_ids"]


@pytest.mark.parametrize("name", ["turns", "eviction", "retraction"])
def test_every_request_finds_as_many_tokens_cached(played: Played, name: str) -> None:
    real, ours = (side[name] for side in played)
    for theirs, mine in zip(real, ours, strict=True):
        assert [_counts(reply) for reply in mine.reply] == [_counts(reply) for reply in theirs.reply]


def test_the_scenarios_reach_what_they_are_named_after(played: Played) -> None:
    real, _ = played
    replies = {name: [r["meta_info"] for e in real[name] for r in e.reply] for name in ("turns", "retraction")}
    assert sum(meta["cached_tokens"] for meta in replies["turns"]) > 1000
    assert sum(meta["num_retractions"] for meta in replies["retraction"]) > 2
    assert "evicted_tokens_total" in real["metrics"][0].reply


def _shape(value: Any) -> Any:
    """Names and types, without the numbers and texts; arrival decides how a stream is cut, so only its kinds count."""
    if isinstance(value, dict):
        return {key: _shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shape(inner) for inner in value]
    return type(value).__name__ if not isinstance(value, (int, float)) or isinstance(value, bool) else "number"


def _comparable(reply: Any) -> Any:
    if isinstance(reply, list):
        # The same kinds of events, however many; random bytes need not show any text.
        kinds: list[Any] = []
        for event in map(_shape, reply):
            shows_text = any("text" in choice or "content" in choice["delta"] for choice in event.get("choices", ()))
            if event not in kinds and not shows_text:
                kinds.append(event)
        return kinds
    shape = _shape(reply)
    for name in UNIMITATED:
        shape.get("meta_info", {}).pop(name, None)
    return shape


@needs_jinja
def test_chats_have_the_same_shape_and_usage(played: Played) -> None:
    real, ours = (side["chats"] for side in played)
    for theirs, mine in zip(real, ours, strict=True):
        assert mine.status == theirs.status
        assert _comparable(mine.reply) == _comparable(theirs.reply), theirs.body
        assert _usages(mine.reply) == _usages(theirs.reply), theirs.body


def _usages(reply: Any) -> Any:
    events = reply if isinstance(reply, list) else [reply]
    reasons = [choice["finish_reason"] for event in events for choice in event.get("choices", ())]
    metas = [{n: e["meta_info"][n] for n in COUNTS} for e in events if "meta_info" in e]
    return [event["usage"] for event in events if event.get("usage")], [r for r in reasons if r], metas


@needs_jinja
def test_what_is_refused_is_refused_in_the_same_way(played: Played) -> None:
    real, ours = (side["errors"] for side in played)
    for theirs, mine in zip(real, ours, strict=True):
        assert mine.status == theirs.status, theirs.body
        assert _shape(mine.reply) == _shape(theirs.reply), theirs.body
        if theirs.reply.get("type") != "Bad Request":  # those messages quote pydantic and the server's own lines
            assert mine.reply == theirs.reply


def _samples(text: str) -> dict[str, float]:
    """Samples by name and labels, but for times and process ids."""
    page = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {name: value for name, value in sorted(sample.labels.items()) if name != "pid"}
            if not TIMED.search(sample.name):
                page[f"{sample.name}{labels}"] = sample.value
    return page


@needs_jinja
def test_the_metrics_say_the_same(played: Played) -> None:
    real, ours = played
    before, after = (_samples(real[name][0].reply) for name in ("before", "metrics"))
    mine = _samples(ours["metrics"][0].reply)
    theirs = {
        name: value - before.get(name, 0) if "_total{" in name else value
        for name, value in after.items()
        if name in mine
    }
    assert mine == theirs
