"""Tokens of a reply, whichever client it came from."""

from __future__ import annotations

from types import SimpleNamespace as Object
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concur_agents import TokenUsage

WANTED = TokenUsage(prompt=100, cached=80, output=7)
OPENAI_CHAT = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 80}}
OPENAI_RESPONSES = {"input_tokens": 100, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 80}}
LANGCHAIN = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107, "input_token_details": {"cache_read": 80}}
SGLANG_META = {"prompt_tokens": 100, "completion_tokens": 7, "cached_tokens": 80, "finish_reason": {"type": "stop"}}
EVERY_SHAPE = [OPENAI_CHAT, OPENAI_RESPONSES, LANGCHAIN, SGLANG_META]


def as_object(usage: dict[str, Any]) -> Object:
    return Object(**{key: as_object(value) if isinstance(value, dict) else value for key, value in usage.items()})


@pytest.mark.parametrize("usage", [*EVERY_SHAPE, *map(as_object, EVERY_SHAPE)])
def test_every_clients_mapping_and_object_is_read(usage: object) -> None:
    assert TokenUsage.of(usage) == WANTED


def test_a_usage_is_itself() -> None:
    assert TokenUsage.of(WANTED) is WANTED


@pytest.mark.parametrize("details", [None, {}, {"cached_tokens": None}, "80", 80, {"cached_tokens": "80"}])
def test_details_that_say_nothing_leave_cached_unknown(details: object) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": details}
    assert TokenUsage.of(usage) == TokenUsage(prompt=100, output=7)


def test_zero_cached_is_zero_and_not_unknown() -> None:
    assert TokenUsage.of({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}}).cached == 0


def test_more_cached_than_asked_is_no_count_of_this_request() -> None:
    assert TokenUsage.of({"prompt_tokens": 5, "cached_tokens": 6}) == TokenUsage(prompt=5)


@pytest.mark.parametrize("count", [-1, 1.5, True, "7", None, [7], float("nan")])
def test_what_is_no_count_is_unknown(count: object) -> None:
    assert TokenUsage.of({"prompt_tokens": count, "completion_tokens": count}) == TokenUsage()


class Hostile:
    """Computes its fields, and fails at it."""

    @property
    def prompt_tokens(self) -> int:
        raise RuntimeError("no")


class HostileMapping(dict[str, object]):
    def get(self, *args: object) -> object:
        raise RuntimeError("no")


@pytest.mark.parametrize("garbage", [None, 0, "usage", b"", [], object(), float("nan"), Hostile(), HostileMapping()])
def test_garbage_is_unknown_and_never_raises(garbage: object) -> None:
    assert TokenUsage.of(garbage) == TokenUsage()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*OPENAI_CHAT, *LANGCHAIN]), inner),
    max_leaves=10,
)


@given(usage=JSON)
def test_any_json_gives_counts_or_unknown(usage: object) -> None:
    read = TokenUsage.of(usage)
    assert all(field is None or field >= 0 for field in (read.prompt, read.cached, read.output))
    assert read.prompt is None or read.cached is None or read.cached <= read.prompt


@pytest.mark.parametrize(
    ("usage", "context"),
    [(WANTED, 107), (TokenUsage(prompt=1), None), (TokenUsage(output=1), None), (TokenUsage(), None)],
)
def test_context_needs_both_parts(usage: TokenUsage, context: int | None) -> None:
    assert usage.context == context
