from typing import Any

import pytest

from concur_agents.emulator import EngineConfig, ServiceConfig


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"page_size": 0}, "page_size must be at least 1, got 0"),
        ({"max_total_tokens": 1}, "max_total_tokens must be .* got 1"),
        (
            {"max_total_tokens": 100, "page_size": 16},
            "max_total_tokens must be .* pages of 16 .* got 100",
        ),
        ({"chunked_prefill_size": 0}, "chunked_prefill_size must be .* got 0"),
        ({"max_total_tokens": 64, "page_size": 16, "chunked_prefill_size": 24}, "chunked_prefill_size .* got 24"),
        ({"context_length": 0}, "context_length must be at least 8, got 0"),
        ({"max_prefill_tokens": 0}, "max_prefill_tokens"),
        ({"max_running_requests": 0}, "max_running_requests"),
        ({"max_queued_requests": 0}, "max_queued_requests must be None or at least 1, got 0"),
        ({"schedule_conservativeness": 0}, "schedule_conservativeness must be positive, got 0"),
        ({"decode_log_interval": 0}, "decode_log_interval"),
    ],
)
def test_an_impossible_engine_names_field_and_value(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EngineConfig(**fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"speedup": 0}, "speedup must be positive and finite, got 0"), ({"model": ""}, "model must not be empty")],
)
def test_an_impossible_service_names_field_and_value(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ServiceConfig(**fields)


def test_the_longest_request_is_bounded_by_context_and_pool() -> None:
    assert EngineConfig(max_total_tokens=100, context_length=50).max_request_tokens == 49
    assert EngineConfig(max_total_tokens=100, context_length=500).max_request_tokens == 99
