"""The cache tier in host memory. Against the real server: `test_hicache_against_sglang.py`."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from prometheus_client.parser import text_string_to_metric_families

from concur_agents.emulator import PRESETS, CostModel, EngineConfig, HiCacheConfig, Request, Scheduler, StepKind
from concur_agents.emulator.hicache import HostedCache, WritePolicy
from concur_agents.emulator.radix import Found, Node, pack

COST = CostModel(prefill_token_s=0.01, decode_base_s=0.1)
FAST_LINK = CostModel(prefill_token_s=0.01, decode_base_s=0.1, load_token_s=0.001, layers=10)


def hosted(capacity: int = 6, page_size: int = 1, **fields: Any) -> HostedCache:
    fields.setdefault("load_back_threshold", 0)
    return HostedCache(capacity, page_size, HiCacheConfig(**fields))


def hold(cache: HostedCache, ids: list[int]) -> None:
    """Compute a sequence as a request would, and let go of it."""
    tokens = pack(ids)
    known, node = cache.match(tokens)
    cache.lock(node)
    assert cache.make_room(len(ids) - known)
    cache.allocate(len(ids) - known)
    already, _ = cache.insert(tokens)
    cache.release(already - known)
    cache.unlock(node)
    cache.settle(0.0)


def found(cache: HostedCache, ids: list[int]) -> tuple[int, int]:
    """Tokens in the pool and in host memory beyond."""
    there = cache.find(pack(ids))
    return there.tokens, there.host


def load(cache: HostedCache, ids: list[int]) -> bool:
    there = cache.find(pack(ids))
    cache.lock(there.node)
    done = cache.load(there)
    cache.settle(0.0)
    cache.unlock(there.node)
    return done


def test_what_the_pool_evicts_is_found_in_host_memory() -> None:
    cache = hosted()
    hold(cache, [1, 2, 3])
    hold(cache, [4, 5, 6, 7])
    assert found(cache, [1, 2, 3]) == (0, 3)
    assert found(cache, [4, 5, 6, 7, 8]) == (4, 0)
    assert cache.host_used == 7


def test_a_prefix_may_be_in_the_pool_and_go_on_in_host_memory() -> None:
    cache = hosted(5)
    hold(cache, [1, 2, 3, 4])
    assert found(cache, [1, 2, 9]) == (2, 0)
    hold(cache, [1, 2, 5, 5])
    assert found(cache, [1, 2, 3, 4]) == (2, 2)
    assert found(cache, [1, 2, 3]) == (2, 1), "a match ends where the tokens do"


def test_a_load_takes_slots_and_evicts_for_them() -> None:
    cache = hosted()
    hold(cache, [1, 2, 3])
    hold(cache, [4, 5, 6, 7])
    assert load(cache, [1, 2, 3])
    assert found(cache, [1, 2, 3]) == (3, 0)
    assert found(cache, [4, 5, 6, 7]) == (0, 4)
    assert (cache.loaded_total, cache.evicted_total, cache.dropped_total) == (3, 7, 0)


def test_a_load_that_does_not_fit_or_is_not_worth_it_changes_nothing() -> None:
    cache = hosted()
    hold(cache, [1, 2, 3])
    hold(cache, [4, 5, 6, 7])
    node = cache.find(pack([4, 5, 6, 7])).node
    cache.lock(node)
    assert not load(cache, [1, 2, 3])
    assert found(cache, [1, 2, 3]) == (0, 3)
    cache.unlock(node)
    short = hosted(load_back_threshold=4)
    hold(short, [1, 2, 3])
    hold(short, [4, 5, 6, 7])
    assert not load(short, [1, 2, 3])
    assert not short.load(Found(0, short.root)), "nothing there to load"


def test_host_memory_gives_up_its_oldest_leaf_that_the_pool_has_not() -> None:
    cache = hosted(4, host_tokens=8)
    for first in (1, 3, 5, 7):
        hold(cache, [first, 0, 0])
        found(cache, [1, 0, 0])  # renewed each time
    assert cache.host_used == 9
    assert found(cache, [1, 0, 0]) == (0, 3)
    assert found(cache, [3, 0, 0]) == (0, 0)
    assert found(cache, [7, 0, 0]) == (3, 0)


def test_what_host_memory_has_no_room_for_is_lost_when_it_is_evicted() -> None:
    cache = hosted(4, host_tokens=1)
    hold(cache, [1, 2, 3])
    hold(cache, [4, 5, 6])
    assert found(cache, [1, 2, 3]) == (0, 0)
    assert (cache.dropped_total, cache.backed_up_total, cache.host_used) == (3, 0, 0)


def test_selective_copies_only_what_a_second_request_inserts() -> None:
    cache = hosted(4, write_policy=WritePolicy.SELECTIVE)
    hold(cache, [1, 2])
    assert cache.host_used == 0
    hold(cache, [1, 2, 3])
    assert cache.host_used == 2
    hold(cache, [4, 4, 4])
    assert found(cache, [1, 2, 3]) == (0, 2)
    assert cache.dropped_total == 1


def test_one_request_counts_once_however_often_it_publishes() -> None:
    cache = hosted(8, write_policy=WritePolicy.SELECTIVE)
    cache.allocate(4)
    cache.insert(pack([1, 2]))
    cache.insert(pack([1, 2, 3, 4]), 2)
    assert cache.host_used == 0
    cache.insert(pack([1, 2, 3, 4]))
    assert cache.host_used == 4


def test_recomputing_what_only_host_memory_has_puts_it_back_into_the_pool() -> None:
    cache = hosted()
    hold(cache, [1, 2, 3])
    hold(cache, [4, 5, 6, 7])
    assert cache.make_room(3)
    cache.allocate(3)
    assert cache.insert(pack([1, 2, 3]))[0] == 0, "no duplicates to free"
    assert found(cache, [1, 2, 3]) == (3, 0)


def test_a_node_is_locked_until_its_copy_is_done_and_copies_queue() -> None:
    cache = HostedCache(10, 1, HiCacheConfig(), backup_token_s=1.0)
    cache.allocate(6)
    cache.insert(pack([1, 1, 1]))
    cache.insert(pack([2, 2, 2]))
    cache.settle(0.0)
    assert (cache.pinned, cache.settles_at) == (6, 3.0)
    cache.settle(2.9)
    assert cache.pinned == 6
    cache.settle(3.0)
    assert (cache.pinned, cache.settles_at) == (3, 6.0)
    cache.settle(float("inf"))
    assert (cache.pinned, cache.settles_at) == (0, None)


def test_a_reset_empties_host_memory_too() -> None:
    cache = hosted()
    hold(cache, [1, 2, 3])
    cache.reset()
    assert (cache.host_used, cache.free, found(cache, [1, 2, 3])) == (0, 6, (0, 0))


class TwoTiers(RuleBasedStateMachine):
    """Requests come, hold their prefix, load, and go; the rules of the tree hold throughout."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = hosted(16, host_tokens=24)
        self.held: list[Node] = []

    @rule(ids=st.lists(st.integers(0, 2), min_size=1, max_size=8), keep=st.booleans(), loads=st.booleans())
    def run(self, ids: list[int], keep: bool, loads: bool) -> None:
        there = self.cache.find(pack(ids))
        node, size = there.node, there.tokens
        self.cache.lock(node)
        if loads and there.deepest is not None and self.cache.load(there):
            self.cache.lock(there.deepest)
            self.cache.unlock(node)
            node, size = there.deepest, size + there.host
        if self.cache.make_room(len(ids) - size):
            self.cache.allocate(len(ids) - size)
            known, leaf = self.cache.insert(pack(ids))
            self.cache.release(known - size)
            self.cache.lock(leaf)
            self.cache.unlock(node)
            node = leaf
        if keep:
            self.held.append(node)
        else:
            self.cache.unlock(node)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        self.cache.unlock(self.held.pop(data.draw(st.integers(0, len(self.held) - 1))))

    @rule()
    def settle(self) -> None:
        self.cache.settle(0.0)

    @rule(count=st.integers(1, 16))
    def evict(self, count: int) -> None:
        if self.cache.make_room(count):
            assert self.cache.free >= count

    def nodes(self) -> Iterator[Node]:
        stack = list(self.cache.root.children.values())
        while stack:
            node = stack.pop()
            stack.extend(node.children.values())
            yield node

    @invariant()
    def tokens_add_up(self) -> None:
        nodes = list(self.nodes())
        assert sum(len(n) for n in nodes if n.on_device and not n.locks) == self.cache.evictable
        assert sum(len(n) for n in nodes if n.on_device and n.locks) == self.cache.pinned
        assert sum(len(n) for n in nodes if n.on_host) == self.cache.host_used <= self.cache.host_capacity
        assert self.cache.free >= 0

    @invariant()
    def each_tier_holds_beginnings(self) -> None:
        for node in self.nodes():
            parent = node.parent
            assert parent is not None
            assert node.on_device or node.on_host
            if parent is not self.cache.root:
                assert parent.on_device >= node.on_device
                assert parent.on_host >= node.on_host
            assert node.on_device or not node.locks
            assert node.resident_children == sum(child.on_device for child in node.children.values())

    def teardown(self) -> None:
        for node in self.held:
            self.cache.unlock(node)
        self.cache.settle(float("inf"))
        assert self.cache.pinned == 0
        assert self.cache.make_room(16), "everything can be evicted once nobody holds it"


TestTwoTiers = TwoTiers.TestCase
TestTwoTiers.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


# The scheduler


def engine(cost: CostModel = COST, pool: int = 100, **hicache: Any) -> Scheduler:
    config = EngineConfig(max_total_tokens=pool, context_length=1000, hicache=HiCacheConfig(**hicache))
    return Scheduler(config, cost)


def ask(scheduler: Scheduler, first: int, length: int = 60, output: int = 2) -> Request:
    request = Request(f"r{first}", pack(range(first, first + length)), pack(range(output)), ignore_eos=True)
    scheduler.submit(request)
    while not scheduler.idle:
        scheduler.step()
    scheduler.step()
    return request


def test_cached_tokens_include_what_came_from_host_memory() -> None:
    scheduler = engine()
    ask(scheduler, 1000)
    ask(scheduler, 2000)
    again = ask(scheduler, 1000)
    assert (again.cached_tokens, again.host_tokens) == (59, 59)
    assert (scheduler.stats.effective_hits, scheduler.stats.effective_host_hits) == (59, 59)
    assert scheduler.cache.pinned == 0
    assert ask(scheduler, 1000).host_tokens == 0, "it is in the pool now"


def test_a_pass_waits_for_what_it_loads_layer_by_layer() -> None:
    scheduler = engine(FAST_LINK)
    ask(scheduler, 1000)
    ask(scheduler, 2000)
    start = scheduler.clock_s
    again = ask(scheduler, 1000, output=1)
    # One token computed, 0.01 s; 59 loaded, 0.059 s; of ten layers the last computes when all is there.
    assert again.finished_at == pytest.approx(start + 0.059 + 0.001)


def test_requests_of_one_pass_share_the_link() -> None:
    scheduler = engine(CostModel(prefill_token_s=0, decode_base_s=0.1, load_token_s=0.01), pool=200)
    for first in (1000, 2000, 3000, 4000):
        ask(scheduler, first)
    start = scheduler.clock_s
    for first in (1000, 2000):
        scheduler.submit(Request(f"r{first}", pack(range(first, first + 60)), pack([1]), ignore_eos=True))
    result = scheduler.step()
    assert len(result.finished) == 2
    assert scheduler.clock_s - start == pytest.approx(2 * 0.59)


def test_a_short_rest_is_computed_rather_than_loaded() -> None:
    scheduler = engine(load_back_threshold=60)
    ask(scheduler, 1000)
    ask(scheduler, 2000)
    assert ask(scheduler, 1000).cached_tokens == 0
    assert ask(scheduler, 1000).cached_tokens == 59


def test_an_engine_with_nothing_to_do_but_wait_for_a_copy_waits_for_it() -> None:
    scheduler = engine(CostModel(prefill_token_s=0.01, decode_base_s=0.1, backup_token_s=1.0))
    first = Request("a", pack(range(60)), pack([1]), ignore_eos=True)
    second = Request("b", pack(range(100, 160)), pack([1]), ignore_eos=True)
    scheduler.submit(first)
    scheduler.submit(second)
    kinds = []
    for _ in range(10):
        result = scheduler.step()
        kinds.append(result.kind)
        if scheduler.idle:
            break
    assert kinds == [StepKind.PREFILL, StepKind.IDLE, StepKind.PREFILL]
    assert second.finished_at == pytest.approx(0.6 + 60 + 0.6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(WritePolicy), st.sampled_from([1, 4]))
def test_an_engine_with_a_host_tier_always_comes_to_an_end(seed: int, policy: WritePolicy, page: int) -> None:
    config = EngineConfig(
        max_total_tokens=120,
        page_size=page,
        chunked_prefill_size=32,
        context_length=1000,
        hicache=HiCacheConfig(write_policy=policy),
    )
    cost = CostModel(prefill_token_s=0.01, decode_base_s=0.1, load_token_s=0.001, backup_token_s=0.002, layers=4)
    scheduler = Scheduler(config, cost)
    rng = random.Random(seed)
    for number in range(25):
        base = 1000 * rng.randrange(6)
        prompt = pack(range(base, base + rng.randint(5, 80)))
        output = rng.randint(1, 30)
        scheduler.submit(Request(str(number), prompt, pack(range(output)), ignore_eos=rng.random() < 0.5))
        for _ in range(rng.randrange(4)):
            scheduler.step()
    for _ in range(5000):
        if scheduler.idle:
            break
        scheduler.step()
    assert scheduler.idle
    scheduler.step()
    assert scheduler.cache.pinned == 0
    assert scheduler.flush()


# Figures and flags


def test_loading_and_computing_overlap_but_for_a_layer() -> None:
    assert FAST_LINK.loading_s(2.0, 1000) == pytest.approx(2.0 + 0.1)
    assert FAST_LINK.loading_s(0.5, 1000) == pytest.approx(1.0 + 0.05)
    assert COST.loading_s(2.0, 1000) == 2.0
    with pytest.raises(ValueError, match="layers must be at least 1, got 0"):
        CostModel(prefill_token_s=1, decode_base_s=1, layers=0)


def test_a_cards_link_is_slower_than_its_memory_and_faster_than_computing_again() -> None:
    for name, preset in PRESETS.items():
        cost = preset.cost
        assert cost.decode_token_s <= cost.load_token_s <= cost.prefill_token_s or name == "cpu-sglang"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ratio": 0}, "ratio must be positive and finite, got 0"),
        ({"ratio": float("inf")}, "ratio must be positive and finite, got inf"),
        ({"host_tokens": 0}, "host_tokens must be None or at least 1, got 0"),
        ({"write_policy": "write_back"}, "write_policy must be a WritePolicy, got 'write_back'"),
        ({"load_back_threshold": -1}, "load_back_threshold must be at least 0, got -1"),
    ],
)
def test_a_tier_that_cannot_be_is_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HiCacheConfig(**fields)


def test_the_host_pool_is_whole_pages_and_one_more() -> None:
    assert HiCacheConfig(ratio=3).capacity(6000, 1) == 18_001  # as a real server shows it
    assert HiCacheConfig(ratio=1.5).capacity(608, 16) == 928
    assert HiCacheConfig(host_tokens=100).capacity(6000, 16) == 112


async def test_the_metrics_page_shows_the_tier_only_where_there_is_one(serve: Any) -> None:
    async def shown(client: Any) -> dict[str, float]:
        text = (await client.get("/metrics", accept="text/plain")).text
        samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
        return {f"{s.name}[{s.labels.get('reason', '')}]": s.value for s in samples if "hicache" in s.name}

    assert not await shown(serve())
    client = serve(hicache=HiCacheConfig())
    for first in (1000, 2000, 1000):
        await client.post(
            "/generate", {"input_ids": list(range(first, first + 1500)), "sampling_params": {"max_new_tokens": 1}}
        )
    names = await shown(client)
    assert names["sglang:hicache_host_total_tokens[]"] == 8001
    assert names["sglang:hicache_host_used_tokens[]"] >= 3000
    assert names["sglang:hicache_backup_tokens_total[]"] >= 3000
    assert names["sglang:hicache_dropped_tokens_total[host_pressure]"] == 0
    info = (await client.get("/server_info")).json()
    shown_flags = [info[name] for name in ("enable_hierarchical_cache", "hicache_ratio", "hicache_write_policy")]
    assert shown_flags == [True, 2.0, "write_through"]


async def test_a_reply_says_where_its_cached_tokens_came_from(serve: Any) -> None:
    client = serve(hicache=HiCacheConfig(), max_total_tokens=2000, context_length=1900)
    for first in (1000, 5000, 1000):
        reply = await client.post(
            "/generate", {"input_ids": list(range(first, first + 1500)), "sampling_params": {"max_new_tokens": 1}}
        )
    details = reply.json()["meta_info"]["cached_tokens_details"]
    assert details == {"device": 0, "host": 1499}
