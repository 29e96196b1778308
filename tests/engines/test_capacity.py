"""Finding the size of the KV pool where /metrics does not say it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concur_agents.engines import SGLang
from concur_agents.engines.capacity import read_server_info
from concur_agents.errors import EngineUnreachableError

ENOUGH = 10.0
SHORT = 0.2
SHARED = Path(os.environ.get("CONCUR_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")
REPLIES = sorted((SHARED / "sglang_samples").glob("info_*server_info.txt"))

WITHOUT = "sglang:token_usage 0.25\nsglang:cached_tokens_total {0}\nsglang:prompt_tokens_total 100\n"


@pytest.fixture
def reader(server: Any, closing: Callable[[Any], Any]) -> SGLang:
    server.answer("/metrics", WITHOUT.format(50))
    return closing(SGLang(server.url))


def test_gauge_wins_and_nothing_else_is_asked(server, reader) -> None:
    server.answer("/metrics", "sglang:max_total_num_tokens 7\n")
    server.answer("/server_info", '{"max_total_num_tokens": 9}')
    assert reader.read(ENOUGH).capacity_tokens == 7
    assert server.paths == ["/metrics"]


def test_server_info_is_asked_once(server, reader) -> None:
    server.answer("/server_info", '{"max_total_num_tokens": 9}')
    assert [reader.read(ENOUGH).capacity_tokens for _ in range(3)] == [9, 9, 9]
    assert server.paths == ["/metrics", "/server_info", "/metrics", "/metrics"]


def test_old_address_is_asked_where_the_new_one_is_not_there(server, reader) -> None:
    server.answer("/get_server_info", '{"max_total_num_tokens": 9}')
    assert reader.read(ENOUGH).capacity_tokens == 9
    assert server.paths == ["/metrics", "/server_info", "/get_server_info"]


def test_unknown_stays_unknown_and_is_not_asked_for_again(server, reader) -> None:
    server.answer("/server_info", '{"version": "0.4"}')
    assert [reader.read(ENOUGH).capacity_tokens for _ in range(3)] == [None] * 3
    assert server.paths.count("/server_info") == server.paths.count("/get_server_info") == 1


@pytest.mark.parametrize("status", [401, 404, 302])
def test_refusal_is_an_answer(server, reader, status: int) -> None:
    for path in ("/server_info", "/get_server_info"):
        server.answer(path, "no", status=status, headers={"Location": "http://elsewhere/"})
    assert [reader.read(ENOUGH).capacity_tokens for _ in range(4)] == [None] * 4
    assert server.paths.count("/server_info") <= 3


def test_busy_engine_is_asked_three_times_in_all_and_the_sample_still_comes(server, reader) -> None:
    server.hang("/server_info")
    samples = [reader.read(SHORT) for _ in range(5)]
    assert [sample.pinned_usage for sample in samples] == [0.25] * 5
    assert server.paths.count("/server_info") == 3
    assert "/get_server_info" not in server.paths


def test_engine_that_answers_at_the_second_try_is_known_from_then_on(server, reader) -> None:
    server.answer("/server_info", "loading", status=503)
    assert reader.read(ENOUGH).capacity_tokens is None
    server.answer("/server_info", '{"max_total_num_tokens": 9}')
    assert reader.read(ENOUGH).capacity_tokens == 9


def test_counter_that_went_down_means_asking_again(server, reader) -> None:
    server.answer("/server_info", '{"max_total_num_tokens": 9}')
    assert reader.read(ENOUGH).capacity_tokens == 9
    server.answer("/metrics", WITHOUT.format(0))
    server.answer("/server_info", '{"max_total_num_tokens": 8}')
    assert [reader.read(ENOUGH).capacity_tokens for _ in range(2)] == [8, 8]
    assert server.paths.count("/server_info") == 2


def test_restart_seen_only_as_a_refused_connection_means_asking_again(start_server, closing) -> None:
    first = start_server()
    first.answer("/metrics", WITHOUT.format(50))
    first.answer("/server_info", '{"max_total_num_tokens": 9}')
    reader = closing(SGLang(first.url))
    assert reader.read(ENOUGH).capacity_tokens == 9
    reader.close()  # so that the old server's port is free
    first.stop()
    with pytest.raises(EngineUnreachableError, match="refused"):
        reader.read(ENOUGH)
    second = start_server(first.server_port)
    second.answer("/metrics", WITHOUT.format(50))
    second.answer("/server_info", '{"max_total_num_tokens": 8}')
    assert reader.read(ENOUGH).capacity_tokens == 8


def test_timeout_alone_keeps_the_answer(server, reader) -> None:
    server.answer("/server_info", '{"max_total_num_tokens": 9}')
    assert reader.read(ENOUGH).capacity_tokens == 9
    server.hang("/metrics")
    with pytest.raises(EngineUnreachableError):
        reader.read(SHORT)
    server.answer("/metrics", WITHOUT.format(50))
    assert reader.read(ENOUGH).capacity_tokens == 9
    assert server.paths.count("/server_info") == 1


def test_ranks_that_metrics_do_not_tell_apart_are_warned_of_once(server, reader, caplog) -> None:
    server.answer("/server_info", '{"max_total_num_tokens": 9, "dp_size": 4}')
    assert [reader.read(ENOUGH).capacity_tokens for _ in range(2)] == [36, 36]
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "4 data-parallel ranks" in warnings[0].getMessage()


def test_ranks_that_metrics_do_tell_apart_are_no_warning(server, reader, caplog) -> None:
    server.answer("/metrics", 'sglang:token_usage{dp_rank="0"} 0.1\nsglang:token_usage{dp_rank="1"} 0.1\n')
    server.answer("/server_info", '{"max_total_num_tokens": 9, "dp_size": 2}')
    assert reader.read(ENOUGH).capacity_tokens == 18
    assert not caplog.records


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"max_total_num_tokens": 9}, (9, 1)),
        ({"max_total_num_tokens": 9, "dp_size": 2}, (18, 2)),
        ({"dp_size": 2, "internal_states": [{"max_total_num_tokens": 5}, {"max_total_num_tokens": 6}]}, (11, 2)),
        ({"dp_size": 2, "internal_states": [{"max_total_num_tokens": 5}]}, (10, 2)),
        ({"internal_states": [{"memory_usage": {"token_capacity": 5}}]}, (5, 1)),
        ({"max_total_num_tokens": 9, "internal_states": [{"memory_usage": 3}, None]}, (9, 1)),
        ({"max_total_num_tokens": "9"}, (None, 1)),
        ({"max_total_num_tokens": True}, (None, 1)),
        ({"max_total_num_tokens": -9, "dp_size": 0}, (None, 1)),
        ({"max_total_tokens": 9, "internal_states": {}}, (None, 1)),
        ([], (None, 1)),
    ],
)
def test_server_info(info: Any, expected: tuple[int | None, int]) -> None:
    assert read_server_info(json.dumps(info)) == expected


@pytest.mark.parametrize("text", ["", "<html>", "[" * 100_000, "NaN", '{"a":'])
def test_server_info_that_is_none(text: str) -> None:
    assert read_server_info(text) == (None, 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["max_total_num_tokens", "dp_size", "internal_states", "memory_usage", "token_capacity"]), inner
    ),
)  # fmt: skip


@given(JSON)
def test_any_json_is_a_positive_count_or_unknown(info: object) -> None:
    tokens, ranks = read_server_info(json.dumps(info))
    assert ranks >= 1
    assert tokens is None or tokens > 0


@pytest.mark.skipif(not REPLIES, reason="no shared data beside this checkout")
@pytest.mark.parametrize("path", REPLIES, ids=lambda path: path.stem)
def test_server_info_of_a_real_server(path: Path) -> None:
    text = path.read_text()
    assert read_server_info(text[text.index("\n{") :]) == (20000, 1)


def test_discovery_never_outlasts_the_deadline(server, reader) -> None:
    """What is left of the deadline is all it gets: a server that drips its answer for 20 s is cut off."""
    server.drip("/server_info", b"HTTP/1.1 200 OK\r\n\r\n", b" " * 1000)
    assert reader.read(SHORT).pinned_usage == 0.25
    assert server.client_left.wait(ENOUGH)
