"""What if: the emulator with six rules of SGLang replaced by Dynamo's, to see whether they explain a difference.

Nothing else uses it: the emulator follows SGLang (``tests/emulator/test_against_sglang.py``). So it overrides what the
emulator keeps to itself, on purpose: a place there for rules that none of our engines has would be for this file alone.
``tests/benchmarks/lab/dynamo/test_rules.py`` shows when the two part.
"""

from __future__ import annotations

from concur_agents.emulator import CostModel, EngineConfig, Request, Scheduler, StepKind, StepResult
from concur_agents.emulator.admission import PrefillPlan
from concur_agents.emulator.kv import KvBook
from concur_agents.emulator.radix import TOKEN_BYTES, Node, RadixCache
from concur_agents.emulator.stats import EngineStats

__all__ = ["TrimmingCache", "dynamos_rules"]


class TrimmingCache(RadixCache):
    """Dynamo's tree: cuts off the end of the oldest leaf just as much as is wanted, and no lookup renews anything.

    SGLang evicts whole leaves, and each lookup, also of a request that then does not fit, renews what it finds. What
    joins the running batch is renewed by Dynamo too, when its prompt is put into the tree.
    """

    promised: int | None = None
    """While a pass is planned: tokens of those that have joined it. Dynamo makes room for each before it looks up the
    next one; SGLang for all together, when all have locked what they found."""

    def _walk(self, tokens: bytes, limit: int | None) -> tuple[int, Node]:
        if self.promised is None or limit is None:
            return super()._walk(tokens, limit)
        self.make_room(self.promised)  # a candidate is looked up only when the one before has joined
        found, node = super()._walk(tokens, limit)
        self.promised += limit + 1 - found
        return found, node

    def make_room(self, count: int) -> bool:
        """See :meth:`RadixCache.make_room`."""
        while self.free < count and self.evictable:
            leaf, parent = self._oldest_leaf()
            cut = min(len(leaf), count - self.free)
            self.free += cut
            self.evictable -= cut
            self.evicted_total += cut
            if cut < len(leaf):
                leaf.tokens = leaf.tokens[: -cut * TOKEN_BYTES]
                self._offer(leaf)
                continue
            self._evict(leaf, parent)
            if parent.locks == 0 and self._is_leaf(parent):
                self._offer(parent)
        return self.free >= count

    def _renew_path(self, node: Node | None) -> None:
        pass


def dynamos_rules(base: type[Scheduler]) -> type[Scheduler]:
    """``base`` with that tree (pages of one token), and with Dynamo 1.4.2's scheduling.

    - A decode step for all follows every prefill pass, where SGLang prefills as long as anybody waits who fits.
    - The queue is looked at before every pass, where SGLang waits for somebody to leave once it was full.
    - Who was retracted goes to the head of the queue, and output is reserved for as at the start, where SGLang puts him
      at its end and reserves by what the others have generated.
    """

    class Replaced(base):  # type: ignore[valid-type, misc]
        def __init__(self, config: EngineConfig, cost: CostModel) -> None:
            super().__init__(config, cost)
            self.cache = TrimmingCache(config.max_total_tokens, config.page_size)
            self.stats = EngineStats(self.cache)
            self._kv = KvBook(self.cache)
            self._owed = False

        def _plan_prefill(self) -> PrefillPlan | None:
            self._full = False
            self.cache.promised = 0
            plan: PrefillPlan | None = super()._plan_prefill()
            self.cache.promised = None
            return plan

        def _make_room_to_decode(self, finished: list[Request]) -> None:
            waiting = len(self.waiting)
            super()._make_room_to_decode(finished)
            retracted = len(self.waiting) - waiting
            if retracted:
                self.waiting.rotate(retracted)
                self._ratio = self._init_ratio

        def step(self, *, limit_s: float = 0.0) -> StepResult:
            """See :meth:`Scheduler.step`."""
            if self._owed and self._batch and self._chunked is None:
                self._owed = False
                finished: list[Request] = []
                self._make_room_to_decode(finished)
                if self._batch:
                    decoded: StepResult = self._decode(0.0, finished)
                    return decoded
            result: StepResult = super().step(limit_s=limit_s)
            self._owed = result.kind is StepKind.PREFILL
            return result

    return Replaced
