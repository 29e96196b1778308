"""Which addresses are taken, and what is said of the others."""

from __future__ import annotations

import pytest

from concur_agents.engines import VLLM, SGLang
from concur_agents.engines.url import engine_url


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/metrics", "//"])
@pytest.mark.parametrize("base", ["http://127.0.0.1:30000", "https://h", "http://[::1]:8000", "http://h/engine/a"])
def test_every_way_to_write_the_base_is_one_engine(base: str, end: str) -> None:
    assert engine_url(base + end).url == base


def test_only_a_last_part_that_is_exactly_an_endpoint_is_dropped() -> None:
    assert engine_url("http://h/v1x").path == "/v1x"
    assert engine_url("http://h/v1/a").path == "/v1/a"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("127.0.0.1:30000", "http://127.0.0.1:30000"),
        ("localhost:30000/v1", "did you mean 'http://localhost:30000/v1'"),
        ("", "must start with http"),
        ("ftp://h", "ftp://h"),
        ("http://", "no host"),
        ("http:///v1", "no host"),
        ("http://h:99999", "h:99999"),
        ("http://h:port", "h:port"),
        ("http://h/a b", "spaces"),
        ("http://h\n", "control"),
        ("http://[::1", r"\[::1"),
        ("http://h/#x", "fragment"),
        (None, "None"),
        (b"http://h", "http://h"),
    ],
)
@pytest.mark.parametrize("reader", [SGLang, VLLM])
def test_bad_address_is_a_value_error_that_shows_it(reader, url, said: str) -> None:
    with pytest.raises(ValueError, match=f"^url.*{said}"):
        reader(url)


@pytest.mark.parametrize(
    "url",
    ["http://user:pa55@h", "http://user:pa55@h:x", "http://h/?key=pa55", "pa55@h", "ftp://u:pa55@h", "http://h/#pa55"],
)
def test_what_may_be_secret_in_a_bad_address_is_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match="url") as caught:
        engine_url(url)
    assert "pa55" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
