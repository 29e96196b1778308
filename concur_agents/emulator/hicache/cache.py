"""The prefix cache with a host tier, as SGLang 0.5.23's unified radix cache keeps it (HiCache).

A node of the tree has KV in the pool, in host memory, or in both. Three rules hold:

- what is in the pool is a beginning of every path, and so is what is in host memory;
- a node evicted from the pool stays in the tree if host memory has it, else it is gone;
- host memory gives up only what the pool has not: its oldest leaf. A copy of something in the pool stays.

KV is copied to host memory when a request publishes it (see :class:`WritePolicy`), over a link of its own: copies queue
one behind the other, and a node being copied is locked until the copy is done. It comes back when a request that needs
it is admitted, all of it or nothing; the pass that it is loaded for waits for it (:meth:`CostModel.loading_s`).
"""

from __future__ import annotations

import heapq
import math
from collections import deque

from concur_agents.emulator.hicache.config import HiCacheConfig
from concur_agents.emulator.radix import TOKEN_BYTES, Found, Node, RadixCache

__all__ = ["HostedCache"]


class HostedCache(RadixCache):
    """A prefix tree over two pools.

    Args:
        capacity: KV slots in the device's pool, in tokens; a multiple of the page size.
        page_size: tokens per page.
        hicache: size and habits of the host tier.
        backup_token_s: engine seconds that a token's copy to host memory takes; 0 for no time at all.

    Raises:
        ValueError: when capacity or page size cannot be.
    """

    def __init__(self, capacity: int, page_size: int, hicache: HiCacheConfig, backup_token_s: float = 0.0) -> None:
        self.host_capacity = hicache.capacity(capacity, page_size)
        """Host memory, in tokens."""
        self.loaded_total = 0
        """Tokens loaded back since the start."""
        self.backed_up_total = 0
        """Tokens copied to host memory since the start."""
        self.dropped_total = 0
        """Tokens evicted from the pool that host memory had not, since the start."""
        self._hits = hicache.write_policy.hits
        self._threshold = max(1, hicache.load_back_threshold)
        self._backup_token_s = backup_token_s
        super().__init__(capacity, page_size)

    def reset(self) -> None:
        """Forget everything, in host memory too."""
        super().reset()
        self.host_free = self.host_capacity
        self._host_leaves: list[tuple[int, int, Node]] = []
        self._host_offered: set[Node] = set()
        self._to_copy: list[Node] = []
        self._copying: deque[tuple[float, Node]] = deque()
        self._link_free_at = -math.inf
        self._loading: list[Node] = []

    @property
    def host_used(self) -> int:
        """Tokens in host memory."""
        return self.host_capacity - self.host_free

    # Lookup and insert

    def find(self, tokens: bytes, limit: int | None = None) -> Found:
        """Longest prefix there is in either pool."""
        size, deepest = self._walk(tokens, limit)
        node, host = deepest, 0
        while not node.on_device and node.parent is not None:
            host += len(node)
            node = node.parent
        return Found(size - host, node, host, deepest if host else None)

    def insert(self, tokens: bytes, seen: int = 0) -> tuple[int, Node]:
        """As :meth:`RadixCache.insert`. Nodes that only host memory had take the caller's slots."""
        end = self._aligned(len(tokens))
        node, offset, known = self.root, 0, 0
        width = self.page_size * TOKEN_BYTES
        while offset < end:
            child = node.children.get(tokens[offset : offset + width])
            if child is None:
                break
            child.last_access = self._tick()
            common = self._common(child.tokens, tokens, offset, end)
            node = child if common == len(child.tokens) else self._split(node, child, common)
            offset += common
            if node.on_device:
                known = offset
            else:
                self._revive(node)
            self._count(node, offset, seen)
        if offset < end:
            leaf = Node(tokens[offset:end], node, self._tick())
            node.children[tokens[offset : offset + width]] = leaf
            node.resident_children += 1
            self.evictable += len(leaf)
            self._offer(leaf)
            self._count(leaf, end, seen)
            node = leaf
        return known // TOKEN_BYTES, node

    # Host memory

    def load(self, found: Found) -> bool:
        """Bring a prefix into the pool, evicting for it; all of it or nothing. Its device part must be locked."""
        if found.deepest is None or found.host < self._threshold or not self.make_room(found.host):
            return False
        self.free -= found.host
        self.loaded_total += found.host
        node = found.deepest
        while not node.on_device and node.parent is not None:
            self._revive(node)
            node = node.parent
        self.lock(found.deepest)
        self._loading.append(found.deepest)
        return True

    def settle(self, now: float) -> None:
        """Start the copies that were asked for, and let go of what has arrived by ``now``."""
        while self._loading:  # the pass that needed it has ended, and it waited for it
            self.unlock(self._loading.pop())
        for node in self._to_copy:
            self._link_free_at = max(now, self._link_free_at) + len(node) * self._backup_token_s
            self._copying.append((self._link_free_at, node))
        self._to_copy.clear()
        while self._copying and self._copying[0][0] <= now:
            self.unlock(self._copying.popleft()[1])
        if now == math.inf:
            self._link_free_at = -math.inf

    @property
    def settles_at(self) -> float | None:
        """When the next copy to host memory is done."""
        return self._copying[0][0] if self._copying else None

    # Internals

    def _count(self, node: Node, end: int, seen: int) -> None:
        """A request has published a node that ends at byte ``end``; one counts each node once."""
        if end <= seen * TOKEN_BYTES:
            return
        node.hits += 1
        if not node.on_host and node.hits >= self._hits:
            self._back_up(node)

    def _back_up(self, node: Node) -> None:
        """Ask for a copy of a node and what is missing above it, from the top; stops where host memory is full."""
        chain: list[Node] = []
        above: Node | None = node
        while above is not None and above.parent is not None and not above.on_host:
            chain.append(above)
            above = above.parent
        for each in reversed(chain):
            if not self._make_host_room(len(each)):
                return
            self.host_free -= len(each)
            self.backed_up_total += len(each)
            each.on_host = True
            self.lock(each)
            self._to_copy.append(each)

    def _revive(self, node: Node) -> None:
        """A node that only host memory had is in the pool again, in slots that are taken already."""
        node.on_device = True
        self.evictable += len(node)
        if node.parent is not None:
            node.parent.resident_children += 1
        if self._is_leaf(node):
            self._offer(node)

    def _is_leaf(self, node: Node) -> bool:
        return node.on_device and not node.resident_children

    def _is_host_leaf(self, node: Node) -> bool:
        return node.parent is not None and not node.on_device and not node.children

    def _evict(self, leaf: Node, parent: Node) -> None:
        parent.resident_children -= 1
        leaf.on_device = False
        if not leaf.on_host:
            self.dropped_total += len(leaf)
            super()._evict(leaf, parent)
        elif self._is_host_leaf(leaf):
            self._offer_host(leaf)

    def _make_host_room(self, count: int) -> bool:
        """Evict from host memory, least recently used leaf first."""
        while self.host_free < count and self._host_leaves:
            seen, _, leaf = heapq.heappop(self._host_leaves)
            self._host_offered.discard(leaf)
            parent = leaf.parent
            if parent is None or not self._is_host_leaf(leaf):
                continue
            if seen != leaf.last_access:
                self._offer_host(leaf)
                continue
            self.host_free += len(leaf)
            super()._evict(leaf, parent)
            if self._is_host_leaf(parent):
                self._offer_host(parent)
        return self.host_free >= count

    def _offer_host(self, leaf: Node) -> None:
        """As :meth:`_offer`, for host memory."""
        if leaf not in self._host_offered:
            self._host_offered.add(leaf)
            self._serial += 1
            heapq.heappush(self._host_leaves, (leaf.last_access, self._serial, leaf))

    def _split(self, parent: Node, node: Node, size: int) -> Node:
        upper = super()._split(parent, node, size)
        upper.on_device, upper.on_host, upper.hits = node.on_device, node.on_host, node.hits
        upper.resident_children = int(node.on_device)
        return upper
