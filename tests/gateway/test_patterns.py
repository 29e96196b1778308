"""Which engines may join: what a pattern allows, and nothing beyond."""

from __future__ import annotations

import pytest

from concur_agents.gateway import AllowedEngines


@pytest.mark.parametrize(
    ("pattern", "url", "allowed"),
    [
        ("http://10.0.0.7:30000", "http://10.0.0.7:30000", True),
        ("http://10.0.0.7:30000", "http://10.0.0.7:30000/v1", True),
        ("http://10.0.0.7:30000/", "http://10.0.0.7:30000", True),
        ("http://10.0.0.7:30000", "http://10.0.0.7:30001", False),
        ("http://10.0.0.7:30000", "http://10.0.0.70:30000", False),
        ("http://10.0.0.*:30000", "http://10.0.0.7:30000", True),
        ("http://10.0.0.*:30000", "http://10.0.0.7.example.org:30000", False),
        ("http://10.0.*.*:30000", "http://10.0.3.4:30000", True),
        ("http://10.*:30000", "http://10.0.3.4:30000", False),  # one label each
        ("http://*:30000", "http://localhost:30000", True),
        ("http://*:30000", "http://a.b:30000", False),
        ("http://worker-*:8000", "http://worker-3:8000", True),
        ("http://Worker-*:8000", "http://WORKER-3:8000", True),
        ("http://worker-*:*", "http://worker-3:1", True),
        ("http://worker-3", "http://worker-3:80", True),
        ("https://worker-3", "https://worker-3:443", True),
        ("https://worker-3", "http://worker-3:443", False),
        ("http://worker-3", "http://worker-3:8000", False),
        ("http://worker-3:8000", "http://worker-3:8000/other", False),
        ("http://[fd00::7]:8000", "http://[fd00::7]:8000", True),
        ("http://[fd00::7]:8000", "http://[fd00::8]:8000", False),
        ("http://a.b:8000", "http://axb:8000", False),
    ],
)
def test_a_pattern_allows_what_it_says(pattern: str, url: str, allowed: bool) -> None:
    assert AllowedEngines([pattern]).allow(url) is allowed
    assert AllowedEngines(["http://other", pattern]).allow(url) is allowed


def test_no_pattern_allows_nothing() -> None:
    assert not AllowedEngines()
    assert not AllowedEngines().allow("http://127.0.0.1")


@pytest.mark.parametrize(
    "pattern",
    ["", "*", "10.0.0.7", "ftp://x", "http://", "http://a/b", "http://a:x", "http://a@b", "http://a?b", "http://a b"],
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="allow must be patterns"):
        AllowedEngines([pattern])


def test_what_is_no_address_is_said_to_be_none() -> None:
    with pytest.raises(ValueError, match="url"):
        AllowedEngines(["http://*"]).allow("x")
