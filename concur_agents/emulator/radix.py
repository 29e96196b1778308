"""Token-level radix prefix cache over one KV pool, with the accounting of SGLang 0.5.23.

The tree says which token prefixes have KV in the pool. Nodes on the path of a running request are locked; an
unlocked leaf may be evicted, least recently used first. Three numbers always add up to the capacity:

    free + evictable + pinned

where pinned is what running requests hold: locked tree nodes, plus private slots that are not in the tree yet.

Token sequences are ``bytes`` of 32-bit ids (see :func:`pack`), so that comparing two prefixes is one memcmp.
Recency follows SGLang's unified radix cache: a match renews the whole matched path, the deepest node the most; an
insert renews each node it walks over, and a split renews both halves.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["TOKEN_BYTES", "Found", "Node", "RadixCache", "pack", "unpack"]

TOKEN_BYTES = 4
"""Bytes per token id in a packed sequence; ids are unsigned 32-bit numbers."""


def pack(ids: Iterable[int]) -> bytes:
    """Token ids as a packed sequence. Raises OverflowError for ids outside 0..2**32-1, TypeError for non-integers."""
    return array("I", ids).tobytes()


def unpack(tokens: bytes) -> list[int]:
    """The ids of a packed sequence."""
    return array("I", tokens).tolist()


class Node:
    """A run of tokens in the tree. ``tokens`` is packed; ``locks`` counts running requests at or below it."""

    __slots__ = (
        "children",
        "hits",
        "last_access",
        "locks",
        "offered",
        "on_device",
        "on_host",
        "parent",
        "resident_children",
        "tokens",
    )

    def __init__(self, tokens: bytes, parent: Node | None, last_access: int) -> None:
        self.tokens = tokens
        self.parent = parent
        self.children: dict[bytes, Node] = {}
        self.locks = 0
        self.last_access = last_access
        self.offered = False
        """Whether a heap of possible victims has an entry for it."""
        # What follows means something only where there is a host tier (see hicache).
        self.on_device = True
        self.on_host = False
        self.hits = 0
        """Requests that have inserted it."""
        self.resident_children = 0
        """Children on the device."""

    def __len__(self) -> int:
        return len(self.tokens) // TOKEN_BYTES


class Found(NamedTuple):
    """A cached prefix."""

    tokens: int
    """So many tokens of it are in the pool."""
    node: Node
    """Where those end."""
    host: int = 0
    """So many more are in host memory."""
    deepest: Node | None = None
    """Where those end; None where there are none."""


class RadixCache:
    """The tree and the pool it lives in.

    Args:
        capacity: KV slots in the pool, in tokens; a multiple of the page size.
        page_size: tokens per page; matches and inserts are cut down to whole pages.

    Raises:
        ValueError: when capacity or page size cannot be.
    """

    def __init__(self, capacity: int, page_size: int = 1) -> None:
        if page_size < 1:
            raise ValueError(f"page_size must be at least 1, got {page_size}")
        if capacity < page_size or capacity % page_size:
            raise ValueError(f"capacity must be a positive multiple of page_size {page_size}, got {capacity}")
        self.capacity = capacity
        self.page_size = page_size
        self.evicted_total = 0
        """Tokens evicted since the start; a reset does not count as eviction."""
        self._ticks = 0
        self.reset()

    def reset(self) -> None:
        """Forget everything: every slot is free. Whoever still holds a lock must not use it any more."""
        self.root = Node(b"", None, 0)
        self.root.locks = 1
        self.free = self.capacity
        """Slots that hold nothing."""
        self.evictable = 0
        """Tokens in unlocked nodes."""
        self._leaves: list[tuple[int, int, Node]] = []
        self._serial = 0

    @property
    def pinned(self) -> int:
        """Slots held by running requests: locked nodes and private slots."""
        return self.capacity - self.free - self.evictable

    @property
    def reclaimable(self) -> int:
        """Slots a new allocation could get: free ones, and evictable ones after evicting."""
        return self.free + self.evictable

    # Lookup and insert

    def match(self, tokens: bytes, limit: int | None = None) -> tuple[int, Node]:
        """Longest cached prefix of ``tokens`` (of its first ``limit`` tokens), and the node it ends on.

        Splits a node when the match ends inside it, and renews the recency of the whole path.
        """
        found = self.find(tokens, limit)
        return found.tokens, found.node

    def find(self, tokens: bytes, limit: int | None = None) -> Found:
        """As :meth:`match`, and what host memory has beyond."""
        size, node = self._walk(tokens, limit)
        return Found(size, node)

    def _walk(self, tokens: bytes, limit: int | None) -> tuple[int, Node]:
        end = self._aligned(len(tokens) if limit is None else min(len(tokens), limit * TOKEN_BYTES))
        node, offset = self.root, 0
        width = self.page_size * TOKEN_BYTES
        while offset < end:
            child = node.children.get(tokens[offset : offset + width])
            if child is None:
                break
            common = self._common(child.tokens, tokens, offset, end)
            if common < len(child.tokens):
                node = self._split(node, child, common)
                offset += common
                break
            node = child
            offset += common
        self._renew_path(node)
        return offset // TOKEN_BYTES, node

    def insert(self, tokens: bytes, seen: int = 0) -> tuple[int, Node]:  # noqa: ARG002 - a host tier counts hits
        """Put a sequence (its whole pages) into the tree; its new tokens become evictable.

        The same request has inserted its first ``seen`` tokens before.

        Returns how many of its tokens were in the tree already, and the node it ends on. The caller owns the slots
        behind ``tokens``: those beyond the tree's part now belong to the tree, the others are duplicates to free.
        """
        end = self._aligned(len(tokens))
        node, offset = self.root, 0
        width = self.page_size * TOKEN_BYTES
        while offset < end:
            child = node.children.get(tokens[offset : offset + width])
            if child is None:
                break
            child.last_access = self._tick()
            common = self._common(child.tokens, tokens, offset, end)
            node = child if common == len(child.tokens) else self._split(node, child, common)
            offset += common
        if offset < end:
            leaf = Node(tokens[offset:end], node, self._tick())
            node.children[tokens[offset : offset + width]] = leaf
            self.evictable += len(leaf)
            self._offer(leaf)
            node = leaf
        return offset // TOKEN_BYTES, node

    # Locks

    def lock(self, node: Node) -> None:
        """Pin the path from the root to ``node``."""
        while node.parent is not None:
            if node.locks == 0:
                self.evictable -= len(node)
            node.locks += 1
            node = node.parent

    def unlock(self, node: Node) -> None:
        """Undo one :meth:`lock` of the same node."""
        while node.parent is not None:
            node.locks -= 1
            if node.locks == 0:
                self.evictable += len(node)
                if self._is_leaf(node):
                    self._offer(node)
            node = node.parent

    # Host memory, where there is any (see hicache)

    def load(self, found: Found) -> bool:  # noqa: ARG002 - the host tier's
        """Bring what host memory has of a prefix into the pool; False where it does not fit or is not worth it."""
        return False

    def settle(self, now: float) -> None:
        """Let go of what has been copied by ``now``, engine seconds; ``inf``: of everything."""

    @property
    def settles_at(self) -> float | None:
        """When there is next something to let go of, engine seconds; None for never."""
        return None

    # Slots

    def allocate(self, count: int) -> None:
        """Take ``count`` free slots for a request. Evict first (see :meth:`make_room`).

        Raises:
            MemoryError: when they are not free; the scheduler's admission should have made sure.
        """
        if count > self.free:
            raise MemoryError(f"KV pool: {count} slots wanted, {self.free} free of {self.capacity}")
        self.free -= count

    def release(self, count: int) -> None:
        """Give back ``count`` private slots."""
        self.free += count

    def make_room(self, count: int) -> bool:
        """Evict until ``count`` slots are free or nothing evictable is left; whether they are free now."""
        while self.free < count and self.evictable:
            leaf, parent = self._oldest_leaf()
            self.free += len(leaf)
            self.evictable -= len(leaf)
            self.evicted_total += len(leaf)
            self._evict(leaf, parent)
            if parent.locks == 0 and self._is_leaf(parent):
                self._offer(parent)
        return self.free >= count

    # Internals

    def _is_leaf(self, node: Node) -> bool:
        """Whether nothing in the pool depends on it."""
        return not node.children

    def _evict(self, leaf: Node, parent: Node) -> None:
        """Take a leaf off the tree."""
        del parent.children[leaf.tokens[: self.page_size * TOKEN_BYTES]]
        leaf.parent = None

    def _aligned(self, size: int) -> int:
        return size // (self.page_size * TOKEN_BYTES) * self.page_size * TOKEN_BYTES

    def _common(self, run: bytes, tokens: bytes, offset: int, end: int) -> int:
        """Bytes that ``run`` shares with ``tokens[offset:end]``, in whole pages."""
        size = min(len(run), end - offset)
        if tokens.startswith(run[:size] if size < len(run) else run, offset):
            return self._aligned(size)
        low, high = 0, size // TOKEN_BYTES  # the first `low` tokens agree, the first `high` do not
        while high - low > 1:
            middle = (low + high) // 2
            if tokens.startswith(run[low * TOKEN_BYTES : middle * TOKEN_BYTES], offset + low * TOKEN_BYTES):
                low = middle
            else:
                high = middle
        return self._aligned(low * TOKEN_BYTES)

    def _split(self, parent: Node, node: Node, size: int) -> Node:
        """Cut ``node`` after ``size`` bytes; returns the upper part. Locks hold for both parts."""
        width = self.page_size * TOKEN_BYTES
        upper = Node(node.tokens[:size], parent, self._tick())
        upper.locks = node.locks
        parent.children[upper.tokens[:width]] = upper
        node.tokens = node.tokens[size:]
        node.parent = upper
        node.last_access = self._tick()
        upper.children[node.tokens[:width]] = node
        return upper

    def _tick(self) -> int:
        # Steps are wide enough for a path of a million nodes below one match (see _renew_path).
        self._ticks += 1 << 20
        return self._ticks

    def _renew_path(self, node: Node | None) -> None:
        now = self._tick()
        while node is not None:
            node.last_access = now
            now -= 1
            node = node.parent

    def _offer(self, leaf: Node) -> None:
        """Remember a possible victim, once. Recency only grows, so an old entry sorts too early, never too late."""
        if not leaf.offered:
            leaf.offered = True
            self._serial += 1
            heapq.heappush(self._leaves, (leaf.last_access, self._serial, leaf))

    def _oldest_leaf(self) -> tuple[Node, Node]:
        """The next victim and its parent; there must be one."""
        while True:
            seen, _, leaf = heapq.heappop(self._leaves)
            leaf.offered = False
            if leaf.parent is None or leaf.locks or not self._is_leaf(leaf):
                continue  # in use, or not a leaf any more; it is offered again when that changes
            if seen != leaf.last_access:
                self._offer(leaf)
                continue
            return leaf, leaf.parent
