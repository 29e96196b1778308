"""Against a real SGLang server: CONCUR_REAL_ENGINE_URL."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from concur_agents.engines import SGLang

URL = os.environ.get("CONCUR_REAL_ENGINE_URL", "")


@pytest.mark.real_engine
@pytest.mark.skipif(not URL, reason="CONCUR_REAL_ENGINE_URL names no server")
def test_real_server_says_everything_a_law_needs(closing: Callable[[Any], Any]) -> None:
    reader = closing(SGLang(URL))
    first = reader.read(10)
    assert first.engine == "sglang"
    assert first.capacity_tokens
    assert None not in (first.pinned_usage, first.running, first.queued)
    assert 0 <= first.pinned_usage <= 1
    second = reader.read(10).since(first)
    assert not second.restarted
