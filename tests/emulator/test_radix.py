import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from concur_agents.emulator.radix import RadixCache, pack, unpack

TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=12)


def hold(cache: RadixCache, ids: list[int]) -> None:
    """Compute a sequence as a request would: take slots for what is missing, publish it, let go."""
    tokens = pack(ids)
    known, node = cache.match(tokens)
    cache.lock(node)
    assert cache.make_room(len(ids) - known)
    cache.allocate(len(ids) - known)
    cache.insert(tokens)
    cache.unlock(node)


def matched(cache: RadixCache, ids: list[int], limit: int | None = None) -> int:
    return cache.match(pack(ids), limit)[0]


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_packing_keeps_every_id(ids: list[int]) -> None:
    assert unpack(pack(ids)) == ids


def test_a_sequence_is_found_as_far_as_it_agrees() -> None:
    cache = RadixCache(100)
    hold(cache, [1, 2, 3, 4, 5])
    assert matched(cache, [1, 2, 3, 9]) == 3
    assert matched(cache, [9]) == 0
    assert matched(cache, [1, 2, 3, 4, 5, 6]) == 5


def test_a_match_stops_at_the_limit() -> None:
    cache = RadixCache(100)
    hold(cache, [1, 2, 3])
    assert matched(cache, [1, 2, 3], limit=2) == 2
    assert matched(cache, [1, 2, 3], limit=0) == 0


def test_branches_share_their_common_prefix() -> None:
    cache = RadixCache(100)
    hold(cache, [1, 2, 3, 4])
    hold(cache, [1, 2, 7, 8, 9])
    assert cache.evictable == 7
    assert matched(cache, [1, 2, 7, 8, 9]) == 5


def test_an_insert_of_something_known_adds_nothing() -> None:
    cache = RadixCache(100)
    hold(cache, [1, 2, 3])
    assert cache.insert(pack([1, 2, 3]))[0] == 3
    assert cache.evictable == 3


def test_the_least_recently_used_leaf_goes_first() -> None:
    cache = RadixCache(9)
    hold(cache, [1, 1, 1])
    hold(cache, [2, 2, 2])
    hold(cache, [3, 3, 3])
    matched(cache, [1, 1, 1])
    cache.make_room(1)
    assert [matched(cache, [n] * 3) for n in (1, 2, 3)] == [3, 0, 3]


def test_a_parent_is_evicted_only_after_its_children() -> None:
    cache = RadixCache(10)
    hold(cache, [1, 2, 3, 4])
    hold(cache, [1, 2, 7])
    cache.make_room(7)
    assert matched(cache, [1, 2, 3, 4]) == 2
    assert matched(cache, [1, 2, 7]) == 3


def test_a_locked_path_is_never_evicted() -> None:
    cache = RadixCache(6)
    hold(cache, [1, 2, 3])
    hold(cache, [4, 5, 6])
    node = cache.match(pack([1, 2, 3]))[1]
    cache.lock(node)
    assert not cache.make_room(6)
    assert matched(cache, [1, 2, 3]) == 3
    assert (cache.free, cache.evictable, cache.pinned) == (3, 0, 3)
    cache.unlock(node)
    assert cache.make_room(6)


def test_a_split_keeps_the_lock_on_both_halves() -> None:
    cache = RadixCache(10)
    hold(cache, [1, 2, 3, 4])
    node = cache.match(pack([1, 2, 3, 4]))[1]
    cache.lock(node)
    assert matched(cache, [1, 2, 9]) == 2
    assert cache.evictable == 0
    cache.unlock(node)
    assert cache.evictable == 4


def test_only_whole_pages_are_kept_and_found() -> None:
    cache = RadixCache(64, page_size=4)
    cache.allocate(12)
    cache.insert(pack(range(10)))
    assert cache.evictable == 8
    assert matched(cache, list(range(7))) == 4
    assert matched(cache, [0, 1, 2, 9]) == 0


def test_slots_that_are_not_free_cannot_be_taken() -> None:
    cache = RadixCache(4)
    with pytest.raises(MemoryError, match="5 slots wanted, 4 free of 4"):
        cache.allocate(5)


@pytest.mark.parametrize(("capacity", "page"), [(0, 1), (10, 4), (8, 0)])
def test_an_impossible_pool_is_refused(capacity: int, page: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        RadixCache(capacity, page)


class CacheMachine(RuleBasedStateMachine):
    """Random requests against a pool: what is in the tree must be right, and the slots must always add up."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = RadixCache(24)
        self.inserted: set[tuple[int, ...]] = set()
        self.locked: list[tuple[list[int], object]] = []

    @rule(ids=TOKENS)
    def insert(self, ids: list[int]) -> None:
        known, node = self.cache.match(pack(ids))
        self.cache.lock(node)
        if self.cache.make_room(len(ids) - known):
            self.cache.allocate(len(ids) - known)
            again, _ = self.cache.insert(pack(ids))
            assert again == known
            self.inserted.update(tuple(ids[:n]) for n in range(1, len(ids) + 1))
        self.cache.unlock(node)

    @rule(ids=TOKENS)
    def match(self, ids: list[int]) -> None:
        known = matched(self.cache, ids)
        assert known == 0 or tuple(ids[:known]) in self.inserted

    @rule(ids=TOKENS)
    def lock(self, ids: list[int]) -> None:
        known, node = self.cache.match(pack(ids))
        self.cache.lock(node)
        self.locked.append((ids[:known], node))

    @precondition(lambda self: self.locked)
    @rule(data=st.data())
    def unlock(self, data: st.DataObject) -> None:
        _, node = self.locked.pop(data.draw(st.integers(0, len(self.locked) - 1)))
        self.cache.unlock(node)  # type: ignore[arg-type]

    @rule(count=st.integers(0, 30))
    def evict(self, count: int) -> None:
        assert self.cache.make_room(count) == (count <= self.cache.free)

    @invariant()
    def locked_paths_are_there(self) -> None:
        for ids, _ in self.locked:
            assert not ids or matched(self.cache, ids) == len(ids)

    @invariant()
    def slots_add_up(self) -> None:
        nodes = [self.cache.root]
        free, locked = 0, 0
        for node in nodes:
            nodes.extend(node.children.values())
            free += len(node) if not node.locks else 0
            locked += len(node) if node.locks else 0
        assert free == self.cache.evictable
        assert locked == self.cache.pinned
        assert self.cache.free + self.cache.evictable + self.cache.pinned == self.cache.capacity


TestCacheMachine = CacheMachine.TestCase
