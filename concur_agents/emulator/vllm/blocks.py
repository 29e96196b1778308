"""vLLM's prefix cache: full blocks found by the hash of all tokens up to their end, reused least recently used first.

What vLLM 0.32.0 does for single blocks (``vllm/v1/core/block_pool.py``) is done here for runs of them, with the same
outcome for every block, so that a context of 100,000 tokens costs no more than a short one:

- a block is cached as soon as the pass that fills it is scheduled, and found by whoever has the same tokens up to its
  end; a prefix tree over whole blocks stands for the hash chain;
- a request that ends frees its blocks, last one first. Cached ones join the end of the free queue and stay cached
  until they are reused; those that were never full go to its front;
- a block that is computed twice is cached twice, as *copies*. A lookup finds the oldest one; the others wait in the
  free queue like any block, and take over when the older ones have been reused.

Whoever holds a block holds a copy of each block before it and frees it later than that one, so no cached block is
without its prefix.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from concur_agents.emulator.radix import TOKEN_BYTES
from concur_agents.emulator.vllm.freelist import FreeList, Link

__all__ = ["BlockPool", "Hold", "Match"]


class _Node:
    """A run of blocks' tokens. Its first block is the key among its parent's children."""

    __slots__ = ("children", "copies", "parent", "tokens")

    def __init__(self, tokens: bytes, parent: _Node | None) -> None:
        self.tokens = tokens
        self.parent = parent
        self.children: dict[bytes, _Node] = {}
        self.copies: list[_Run] = []


class _Run:
    """One copy of the blocks of a node. In the free queue exactly while nobody refers to it."""

    __slots__ = ("above", "after", "before", "node", "refs")

    def __init__(self, node: _Node, refs: int) -> None:
        self.node = node
        self.refs = refs
        self.above: _Run | None = None
        """The part that was cut off its beginning, if any: who held it before holds that too."""
        self.before: Link | None = None
        self.after: Link | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """What a lookup found. Good until the pool is next told to do something."""

    runs: tuple[_Run, ...]
    blocks: int
    """Cached blocks from the beginning on."""
    idle_blocks: int
    """Of these, the ones that nobody holds: taking them uses up free blocks."""


@dataclass(slots=True)
class Hold:
    """The cached blocks that a request holds, from its first on."""

    entries: list[tuple[_Run, int]] = field(default_factory=list)
    """A run, and the bytes of tokens it had when it was taken: it may have been cut since."""
    blocks: int = 0


class BlockPool:
    """Blocks, and what is cached in them. Counts in blocks.

    Args:
        blocks: how many there are, without vLLM's null block.
        page_size: tokens per block.
    """

    def __init__(self, blocks: int, page_size: int) -> None:
        self.blocks = blocks
        self.page_size = page_size
        self.evicted_total = 0
        """Cached tokens whose block was reused, since the start; a reset does not count."""
        self._width = page_size * TOKEN_BYTES
        self._forget()

    def _forget(self) -> None:
        self._root = _Node(b"", None)
        self._queue: FreeList[_Run] = FreeList()
        self._cached_free = 0
        self._blank = self.blocks

    @property
    def free(self) -> int:
        """Blocks that nobody holds, cached or not."""
        return self._blank + self._cached_free

    @property
    def cached_free(self) -> int:
        """Of the free blocks, the cached ones."""
        return self._cached_free

    @property
    def usage(self) -> float:
        """Share of the blocks that requests hold (``vllm:kv_cache_usage_perc``). 0..1."""
        return 1.0 - self.free / self.blocks

    # Lookup

    def match(self, tokens: bytes, most: int) -> Match:
        """The longest cached beginning of ``tokens``, of ``most`` blocks at most. Renews nothing, as in vLLM."""
        end = min(most, len(tokens) // self._width) * self._width
        node, offset, idle = self._root, 0, 0
        runs = []
        while offset < end:
            child = node.children.get(tokens[offset : offset + self._width])
            if child is None:
                break
            common = self._common(child.tokens, tokens, offset, end)
            node = child if common == len(child.tokens) else self._split(child, common)
            offset += common
            runs.append(node.copies[0])
            if not node.copies[0].refs:
                idle += common
        return Match(tuple(runs), offset // self._width, idle // self._width)

    def acquire(self, match: Match) -> Hold:
        """Hold the blocks of a match."""
        hold = Hold(blocks=match.blocks)
        for run in match.runs:
            if not run.refs:
                self._queue.remove(run)
            run.refs += 1
            hold.entries.append((run, len(run.node.tokens)))
        self._cached_free -= match.idle_blocks
        return hold

    # Blocks

    def take(self, count: int) -> None:
        """Give out ``count`` free blocks: blank ones first, then the cached ones at the front of the queue.

        Raises:
            MemoryError: when they are not free; the scheduler should have looked.
        """
        if count > self.free:
            raise MemoryError(f"KV pool: {count} blocks wanted, {self.free} free of {self.blocks}")
        blank = min(count, self._blank)
        self._blank -= blank
        while blank < count:
            run = self._queue.first
            assert run is not None  # noqa: S101 - they were counted
            blank += self._evict(run, count - blank)

    def publish(self, hold: Hold, tokens: bytes, count: int) -> None:
        """Cache the holder's blocks up to number ``count``, which are full now and hold the beginning of ``tokens``."""
        offset, end = hold.blocks * self._width, count * self._width
        if offset >= end:
            return
        hold.blocks = count
        node = hold.entries[-1][0].node if hold.entries else self._root
        if hold.entries and not node.children and len(node.copies) == 1 and node.copies[0].refs == 1:
            node.tokens += tokens[offset:end]  # nobody else knows of it: make it longer
            run, size = hold.entries[-1]
            hold.entries[-1] = (run, size + end - offset)
            return
        while offset < end:
            key = tokens[offset : offset + self._width]
            child = node.children.get(key)
            if child is None:
                child = node.children[key] = _Node(tokens[offset:end], node)
            else:
                common = self._common(child.tokens, tokens, offset, end)
                child = child if common == len(child.tokens) else self._split(child, common)
            run = _Run(child, 1)
            child.copies.append(run)
            hold.entries.append((run, len(child.tokens)))
            offset += len(child.tokens)
            node = child

    def release(self, hold: Hold, count: int) -> None:
        """Let go of all ``count`` blocks of a request, of which ``hold`` are cached."""
        self._blank += count - hold.blocks
        for newest, size in reversed(hold.entries):
            run: _Run | None = newest
            left = size
            while left:
                assert run is not None  # noqa: S101 - all parts of what it once was
                left -= len(run.node.tokens)
                run.refs -= 1
                if not run.refs:
                    self._queue.append(run)
                    self._cached_free += len(run.node.tokens) // self._width
                run = run.above
        hold.entries.clear()
        hold.blocks = 0

    def reset(self) -> bool:
        """Forget what is cached; refused (False) while anybody holds a block, as vLLM does."""
        if self.free < self.blocks:
            return False
        self._forget()
        return True

    def restart(self) -> None:
        """Forget everything. Holds from before must not be used any more."""
        self._forget()

    # Internals

    def _evict(self, run: _Run, most: int) -> int:
        """Reuse up to ``most`` blocks at the end of a free run; how many it were."""
        node = run.node
        blocks = len(node.tokens) // self._width
        count = min(blocks, most)
        if count < blocks:
            keep = (blocks - count) * self._width
            if len(node.copies) == 1:
                node.tokens = node.tokens[:keep]
            else:
                self._split(node, keep)  # the run goes on as the lower part, which comes first
                self._discard(run)
        else:
            self._discard(run)
        self._cached_free -= count
        self.evicted_total += count * self.page_size
        return count

    def _discard(self, run: _Run) -> None:
        self._queue.remove(run)
        node = run.node
        node.copies.remove(run)
        if not node.copies and node.parent is not None:
            del node.parent.children[node.tokens[: self._width]]
            node.parent = None

    def _split(self, node: _Node, size: int) -> _Node:
        """Cut a node after ``size`` bytes; returns the upper part. Whoever holds it holds both."""
        parent = node.parent
        assert parent is not None  # noqa: S101 - the root has no tokens
        upper = _Node(node.tokens[:size], parent)
        parent.children[upper.tokens[: self._width]] = upper
        node.tokens = node.tokens[size:]
        node.parent = upper
        upper.children[node.tokens[: self._width]] = node
        for run in node.copies:
            above = _Run(upper, run.refs)
            above.above, run.above = run.above, above
            upper.copies.append(above)
            if not run.refs:
                self._queue.insert_after(above, run)
        return upper

    def _common(self, run: bytes, tokens: bytes, offset: int, end: int) -> int:
        """Bytes of the whole blocks that ``run`` and ``tokens[offset:end]`` have in common; the first one they do."""
        size = min(len(run), end - offset)
        if tokens.startswith(run if size == len(run) else run[:size], offset):
            return size
        low, high = 1, size // self._width  # the first `low` blocks agree, the first `high` do not
        while high - low > 1:
            middle = (low + high) // 2
            if tokens.startswith(run[low * self._width : middle * self._width], offset + low * self._width):
                low = middle
            else:
                high = middle
        return low * self._width
