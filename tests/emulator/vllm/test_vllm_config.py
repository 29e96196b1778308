"""The configuration says which field cannot be."""

import pytest

from concur_agents.emulator.vllm import VllmConfig


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("page_size", 0),
        ("max_running_requests", 0),
        ("max_total_tokens", 16),
        ("max_total_tokens", 1000),
        ("context_length", 0),
        ("context_length", 1600),  # the null block is not for requests
        ("max_batched_tokens", 1023),
        ("watermark", 1.0),
        ("watermark", -0.1),
    ],
)
def test_a_value_that_cannot_be_is_named(field: str, value: float) -> None:
    fields = {"max_total_tokens": 1600, "context_length": 1584} | {field: value}
    with pytest.raises(ValueError, match=rf"^{field} must .* got {value}$"):
        VllmConfig(**fields)


def test_defaults_are_a_server_on_a_large_card() -> None:
    config = VllmConfig(max_total_tokens=160_000)
    assert (config.page_size, config.max_batched_tokens, config.max_running_requests) == (16, 8192, 1024)
    assert (config.blocks, config.watermark_blocks) == (9999, 0)
