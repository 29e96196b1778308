"""A request's hold on the KV pool: which of its tokens are in the tree, and which slots are its own."""

from __future__ import annotations

from concur_agents.emulator.radix import RadixCache
from concur_agents.emulator.request import Request

__all__ = ["KvBook"]


class KvBook:
    """Publishes requests' tokens in the tree and frees what they hold, in whole pages."""

    def __init__(self, cache: RadixCache) -> None:
        self.cache = cache
        self._page = cache.page_size

    def pages(self, tokens: int) -> int:
        """Slots that so many tokens occupy."""
        return -(-tokens // self._page) * self._page

    def extend(self, request: Request) -> None:
        """Take the slots from the request's ``prefix`` to its ``extend_end``."""
        self.cache.allocate(self.pages(request.extend_end) - self.pages(request.prefix))
        request.kv_tokens = request.extend_end

    def checkpoint(self, request: Request, up_to: int) -> None:
        """Publish the request's first ``up_to`` tokens in the tree and move its lock there."""
        known, node = self.cache.insert(request.tokens(up_to), request.inserted)
        whole = up_to // self._page * self._page
        if 0 < request.prompt_tokens // self._page * self._page < whole:
            # SGLang cuts the path at the prompt's end, so that the output can be evicted without the prompt.
            self.cache.insert(request.prompt, request.prompt_tokens)
        request.inserted = max(request.inserted, whole)
        self.cache.release(max(0, known - request.protected))  # somebody inserted the same before: duplicates
        self.cache.lock(node)
        if request.node is not None:
            self.cache.unlock(request.node)
        request.node = node
        request.protected = whole
        request.prefix = up_to

    def drop(self, request: Request) -> None:
        """Free the request's own slots and its lock; nothing happens where it holds none."""
        if request.node is None:
            return
        self.cache.release(self.pages(request.kv_tokens) - request.protected)
        self.cache.unlock(request.node)
        request.node = None
        request.kv_tokens = request.protected = request.prefix = request.inserted = 0
