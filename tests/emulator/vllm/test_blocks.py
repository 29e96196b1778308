"""The block pool against a plain one that keeps each block by itself, as vLLM does."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from concur_agents.emulator.radix import TOKEN_BYTES, pack, unpack
from concur_agents.emulator.vllm import BlockPool
from concur_agents.emulator.vllm.blocks import Hold

PAGE = 2
POOL = 14


class PlainPool:
    """What vLLM 0.32.0's BlockPool does, a block at a time. A cached block is known by all tokens up to its end."""

    def __init__(self, blocks: int) -> None:
        self.queue = list(range(blocks))  # the first is reused next
        self.refs = [0] * blocks
        self.known: list[bytes | None] = [None] * blocks
        self.cached: dict[bytes, list[int]] = {}
        self.evicted = 0

    def match(self, tokens: bytes, most: int) -> list[int]:
        found = []
        for count in range(1, most + 1):
            copies = self.cached.get(tokens[: count * PAGE * TOKEN_BYTES])
            if not copies:
                break
            found.append(copies[0])
        return found

    def touch(self, blocks: list[int]) -> None:
        for block in blocks:
            if not self.refs[block]:
                self.queue.remove(block)
            self.refs[block] += 1

    def take(self, count: int) -> list[int]:
        taken, self.queue = self.queue[:count], self.queue[count:]
        for block in taken:
            self.refs[block] = 1
            self.evicted += self.forget(block)
        return taken

    def forget(self, block: int) -> bool:
        known, self.known[block] = self.known[block], None
        if known is None:
            return False
        self.cached[known].remove(block)
        if not self.cached[known]:
            del self.cached[known]
        return True

    def cache(self, block: int, known: bytes) -> None:
        self.known[block] = known
        self.cached.setdefault(known, []).append(block)

    def free(self, blocks: list[int]) -> None:
        for block in blocks:
            self.refs[block] -= 1
        gone = [block for block in reversed(blocks) if not self.refs[block]]
        blank = [block for block in gone if self.known[block] is None]
        self.queue = blank + self.queue + [block for block in gone if self.known[block] is not None]


def queue(pool: BlockPool) -> Iterator[bytes]:
    """What is cached in the free blocks, the one to be reused next first."""
    run: Any = pool._queue.first
    while run is not None and run is not pool._queue._end:
        path, node = b"", run.node
        while node is not None:
            path, node = node.tokens + path, node.parent
        for count in range(len(run.node.tokens) // (PAGE * TOKEN_BYTES)):
            yield path[: len(path) - count * PAGE * TOKEN_BYTES]
        run = run.after


class Pools(RuleBasedStateMachine):
    """Requests come, grow and go, in both pools alike."""

    def __init__(self) -> None:
        super().__init__()
        self.ours, self.plain = BlockPool(POOL, PAGE), PlainPool(POOL)
        self.live: list[tuple[Hold, list[int], bytes, int]] = []  # ..., tokens, blocks cached so far

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=16), part=st.floats(0, 1), again=st.booleans())
    def begin(self, tokens: list[int], part: float, again: bool) -> None:
        packed = pack(tokens)
        most = 0 if again else (len(tokens) - 1) // PAGE  # `again`: computes what is cached, as equal decodes would
        match, found = self.ours.match(packed, most), self.plain.match(packed, most)
        assert match.blocks == len(found)
        assert match.idle_blocks == sum(not self.plain.refs[block] for block in found)
        need = -(-len(tokens) // PAGE) - match.blocks
        if need + match.idle_blocks > self.ours.free:
            return
        hold = self.ours.acquire(match)
        self.plain.touch(found)
        self.live.append((hold, found, packed, match.blocks))
        first = round(need * part)
        self._grow(len(self.live) - 1, first)
        self._grow(len(self.live) - 1, need - first)

    def _grow(self, index: int, need: int) -> None:
        hold, blocks, tokens, cached = self.live[index]
        self.ours.take(need)
        blocks = blocks + self.plain.take(need)
        full = min(len(blocks), len(tokens) // (PAGE * TOKEN_BYTES))
        self.ours.publish(hold, tokens, full)
        for count in range(cached, full):
            self.plain.cache(blocks[count], tokens[: (count + 1) * PAGE * TOKEN_BYTES])
        self.live[index] = (hold, blocks, tokens, full)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), more=st.lists(st.integers(0, 1), min_size=1, max_size=6))
    def decode(self, data: st.DataObject, more: list[int]) -> None:
        index = data.draw(st.integers(0, len(self.live) - 1))
        hold, blocks, tokens, cached = self.live[index]
        tokens += pack(more)
        need = -(-len(tokens) // (PAGE * TOKEN_BYTES)) - len(blocks)
        if need <= self.ours.free:
            self.live[index] = (hold, blocks, tokens, cached)
            self._grow(index, need)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        hold, blocks, _, _ = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
        self.ours.release(hold, len(blocks))
        self.plain.free(blocks)

    @invariant()
    def both_are_the_same(self) -> None:
        ours, plain = self.ours, self.plain
        cached = [plain.known[block] for block in plain.queue if plain.known[block] is not None]
        assert ours.free == len(plain.queue)
        assert ours.cached_free == len(cached)
        assert [unpack(known) for known in queue(ours)] == [unpack(known) for known in cached]
        assert ours.evicted_total == plain.evicted * PAGE
        assert ours.usage == pytest.approx(sum(refs > 0 for refs in plain.refs) / POOL)

    @invariant()
    def nothing_is_cached_without_its_prefix(self) -> None:
        for known in self.plain.cached:
            assert len(known) == PAGE * TOKEN_BYTES or known[: -PAGE * TOKEN_BYTES] in self.plain.cached


TestPools = Pools.TestCase
TestPools.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


def fill(pool: BlockPool, tokens: list[int], *, most: int | None = None) -> tuple[Hold, int]:
    """A request with these tokens: what it holds, and how many blocks."""
    packed = pack(tokens)
    match = pool.match(packed, len(tokens) // PAGE if most is None else most)
    hold, blocks = pool.acquire(match), -(-len(tokens) // PAGE)
    pool.take(blocks - match.blocks)
    pool.publish(hold, packed, len(tokens) // PAGE)
    return hold, blocks


def cached(pool: BlockPool, tokens: list[int]) -> int:
    return pool.match(pack(tokens), len(tokens) // PAGE).blocks


def test_only_full_blocks_are_found() -> None:
    pool = BlockPool(8, PAGE)
    pool.release(*fill(pool, [1, 2, 3, 4, 5]))
    assert (cached(pool, [1, 2, 3, 4, 5, 6]), cached(pool, [1, 2, 3]), cached(pool, [3, 4])) == (2, 1, 0)
    assert (pool.free, pool.cached_free) == (8, 2)


def test_the_tail_of_a_request_is_reused_before_its_beginning() -> None:
    pool = BlockPool(4, PAGE)
    pool.release(*fill(pool, [1, 2, 3, 4, 5, 6, 7, 8]))
    pool.take(1)
    assert cached(pool, [1, 2, 3, 4, 5, 6, 7, 8]) == 3
    pool.take(2)
    assert cached(pool, [1, 2, 3, 4, 5, 6, 7, 8]) == 1
    assert pool.evicted_total == 3 * PAGE


def test_the_request_that_ended_first_is_reused_first() -> None:
    pool = BlockPool(6, PAGE)
    older, newer = fill(pool, [1, 1, 1, 1]), fill(pool, [2, 2, 2, 2])
    pool.release(*newer)
    pool.release(*older)
    pool.take(4)
    assert (cached(pool, [1, 1, 1, 1]), cached(pool, [2, 2, 2, 2])) == (2, 0)


def test_blocks_that_were_never_full_are_reused_before_cached_ones() -> None:
    pool = BlockPool(4, PAGE)
    pool.release(*fill(pool, [1, 1, 1]))
    pool.release(*fill(pool, [2, 2, 2]))
    pool.take(2)
    assert (cached(pool, [1, 1]), cached(pool, [2, 2])) == (1, 1)


def test_a_lookup_alone_renews_nothing() -> None:
    pool = BlockPool(2, PAGE)
    pool.release(*fill(pool, [1, 1]))
    pool.release(*fill(pool, [2, 2]))
    assert cached(pool, [1, 1]) == 1
    pool.take(1)
    assert (cached(pool, [1, 1]), cached(pool, [2, 2])) == (0, 1)


def test_a_shared_prefix_is_held_until_the_last_of_its_holders_ends() -> None:
    pool = BlockPool(8, PAGE)
    first, second = fill(pool, [1, 1, 2, 2, 3, 3]), fill(pool, [1, 1, 2, 2, 4, 4])
    assert pool.free == 4
    pool.release(*first)
    assert (pool.free, pool.cached_free) == (5, 1)
    pool.release(*second)
    assert (pool.free, pool.cached_free) == (8, 4)


def test_a_block_computed_twice_is_cached_twice_and_the_copy_outlives_the_first() -> None:
    pool = BlockPool(5, PAGE)
    pool.release(*fill(pool, [1, 1, 2, 2]))
    pool.release(*fill(pool, [1, 1, 2, 2], most=1))  # the last block is computed again
    assert pool.cached_free == 3
    pool.take(3)  # two blank ones, and the first copy
    assert cached(pool, [1, 1, 2, 2]) == 2
    pool.take(1)
    assert cached(pool, [1, 1, 2, 2]) == 1


def test_a_copy_of_several_blocks_is_reused_from_its_end_while_the_other_stays() -> None:
    pool = BlockPool(6, PAGE)
    tokens = [1, 1, 2, 2, 3, 3]
    pool.release(*fill(pool, tokens))
    pool.release(*fill(pool, tokens, most=0))
    found = []
    for _ in range(6):
        pool.take(1)
        found.append(cached(pool, tokens))
    assert found == [3, 3, 3, 2, 1, 0]


def test_more_blocks_than_are_free_are_refused() -> None:
    pool = BlockPool(2, PAGE)
    fill(pool, [1, 2])
    with pytest.raises(MemoryError, match="2 blocks wanted, 1 free of 2"):
        pool.take(2)


def test_a_reset_is_refused_while_somebody_holds_a_block() -> None:
    pool = BlockPool(4, PAGE)
    held = fill(pool, [1, 1])
    assert not pool.reset()
    pool.release(*held)
    assert pool.reset()
    assert (cached(pool, [1, 1]), pool.free, pool.cached_free, pool.evicted_total) == (0, 4, 0, 0)


@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=8), shared=st.integers(0, 40))
def test_what_is_free_and_what_is_held_add_up(lengths: list[int], shared: int) -> None:
    pool = BlockPool(400, PAGE)
    held = [fill(pool, [*range(shared), *range(1000 * n, 1000 * n + size)]) for n, size in enumerate(lengths, 1)]
    unique = {tuple([*range(shared)][: k * PAGE]) for k in range(1, shared // PAGE + 1)}
    assert 400 - pool.free == sum(blocks for _, blocks in held) - (len(lengths) - 1) * len(unique)
    for each in held:
        pool.release(*each)
    assert pool.free == 400
