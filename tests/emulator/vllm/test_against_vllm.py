"""The emulated scheduler against vLLM 0.32.0's own, pass by pass, with a tolerance of zero.

What the real one did is recorded (see ``record_vllm.py``). To compare more than that, record the first so many
scenarios elsewhere and name the file: ``CONCUR_VLLM_RECORD=FILE pytest tests/emulator/vllm/test_against_vllm.py``.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from concur_agents.emulator import CostModel, Request
from concur_agents.emulator.radix import pack
from concur_agents.emulator.vllm import VllmConfig, VllmScheduler

HERE = Path(__file__).parent
_spec = importlib.util.spec_from_file_location("closed_loop", HERE / "closed_loop.py")
assert _spec is not None
assert _spec.loader is not None
closed_loop: Any = importlib.util.module_from_spec(_spec)
sys.modules["closed_loop"] = closed_loop  # dataclasses look their module up
_spec.loader.exec_module(closed_loop)

RECORD = os.environ.get("CONCUR_VLLM_RECORD", HERE / "vllm-0.32.0.json")
RECORDED = json.loads(Path(RECORD).read_text(encoding="utf-8"))


class EmulatedCore:
    def __init__(self, plan: Any) -> None:
        config = VllmConfig(
            max_total_tokens=(plan.blocks + 1) * plan.page,
            page_size=plan.page,
            context_length=plan.context,
            max_batched_tokens=plan.batched,
            max_running_requests=plan.running,
        )
        self.scheduler = VllmScheduler(config, CostModel(prefill_token_s=1, decode_base_s=1))
        self.requests: dict[str, Request] = {}
        self.tokens = 0

    def submit(self, name: str, step: Any) -> None:
        self.requests[name] = Request(name, pack(step.prompt), pack(step.output))
        self.scheduler.submit(self.requests[name])

    def idle(self) -> bool:
        return self.scheduler.idle

    def forward(self) -> list[str]:
        stats = self.scheduler.stats
        before = stats.prefill_tokens + stats.decode_tokens
        ended = self.scheduler.step().finished
        self.tokens = stats.prefill_tokens + stats.decode_tokens - before
        return [request.rid for request in ended]

    def state(self) -> list[int]:
        scheduler = self.scheduler
        return [self.tokens, len(scheduler.running), len(scheduler.waiting), scheduler.cache.free]

    def outcome(self) -> dict[str, Any]:
        stats = self.scheduler.stats
        return {
            "cached": {name: request.cached_tokens for name, request in self.requests.items()},
            "preempted": {name: request.retractions for name, request in self.requests.items()},
            "counters": [
                stats.prefix_cache_queries,
                stats.prefix_cache_hits,
                stats.preempted_queries,
                stats.preempted_hits,
            ],
        }


@pytest.mark.parametrize("seed", sorted(RECORDED, key=int))
def test_every_pass_and_every_request_is_as_in_vllm(seed: str) -> None:
    plan = closed_loop.scenario(int(seed))
    got, real = closed_loop.drive(plan, EmulatedCore(plan)), RECORDED[seed]
    first = next(
        (n for n, (ours, theirs) in enumerate(zip(got["trace"], real["trace"], strict=False)) if ours != theirs), None
    )
    assert first is None, f"pass {first}: {got['trace'][first]}, vLLM {real['trace'][first]}"
    assert got == real


def test_the_record_holds_what_is_hard() -> None:
    assert sum(count for real in RECORDED.values() for count in real["preempted"].values()) >= 10
    assert sum(real["counters"][3] for real in RECORDED.values()) > 0
