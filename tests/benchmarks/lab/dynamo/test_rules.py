"""The emulator with Dynamo's rules in place of SGLang's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.lab.dynamo.rules import TrimmingCache, dynamos_rules
from concur_agents.emulator import CostModel, EngineConfig, Request, Scheduler, StepKind
from concur_agents.emulator.radix import RadixCache, pack


def _put(cache: RadixCache, first: int, count: int) -> bytes:
    tokens = pack(range(first, first + count))
    cache.allocate(count)
    cache.insert(tokens)
    return tokens


def test_only_as_much_of_the_oldest_leaf_goes_as_is_wanted() -> None:
    whole, trimmed = RadixCache(100), TrimmingCache(100)
    kept = []
    for cache in (whole, trimmed):
        old, new = _put(cache, 0, 60), _put(cache, 1000, 40)
        assert cache.make_room(10)
        kept.append((cache.match(old)[0], cache.match(new)[0]))
    assert kept == [(0, 40), (50, 40)]


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 60)), max_size=20))
def test_every_slot_stays_counted(work: list[tuple[int, int]]) -> None:
    cache = TrimmingCache(100)
    for number, (count, room) in enumerate(work):
        if cache.make_room(count):
            _put(cache, number * 1000, count)
        cache.make_room(room)
        assert cache.free + cache.evictable == 100
        assert cache.pinned == 0
    assert cache.make_room(100)
    assert not cache.root.children


def test_everybody_decodes_after_each_prefill() -> None:
    cost = CostModel(prefill_token_s=0.001, decode_base_s=0.01)
    kinds = []
    for build in (Scheduler, dynamos_rules(Scheduler)):
        engine = build(EngineConfig(max_total_tokens=100, chunked_prefill_size=20), cost)
        for first in (0, 1000):
            tokens = pack(range(first, first + 25))
            engine.submit(Request(str(first), tokens[: 20 * 4], tokens[20 * 4 :]))
        kinds.append([engine.step().kind for _ in range(4)])
    prefill, decode = StepKind.PREFILL, StepKind.DECODE
    assert kinds == [[prefill, prefill, decode, decode], [prefill, decode, prefill, decode]]
