"""How many blocks the decoding requests are going to need, without looking at each of them."""

from __future__ import annotations

from concur_agents.emulator.request import Request

__all__ = ["Growth"]


class Growth:
    """Requests that gain a token a step, counted by when they fill their block.

    Args:
        page_size: tokens per block.
    """

    def __init__(self, page_size: int) -> None:
        self._page = page_size
        self._steps = 0
        self._phase: dict[Request, int] = {}
        self._count = [0] * page_size

    def join(self, request: Request) -> None:
        """A request that holds ``kv_tokens`` tokens begins to decode."""
        phase = (request.kv_tokens - self._steps) % self._page
        self._phase[request] = phase
        self._count[phase] += 1

    def leave(self, request: Request) -> None:
        """It has stopped."""
        self._count[self._phase.pop(request)] -= 1

    def advance(self, steps: int) -> None:
        """Everybody has gained ``steps`` tokens."""
        self._steps += steps

    def blocks(self, steps: int) -> int:
        """Blocks that the next so many steps take from the pool."""
        rounds, rest = divmod(steps, self._page)
        return rounds * len(self._phase) + sum(self._step(ahead) for ahead in range(rest))

    def lasts(self, blocks: int, most: int) -> int:
        """For how many steps so many free blocks are enough; ``most`` at most."""
        if self.blocks(most) <= blocks:
            return most
        steps = blocks // len(self._phase) * self._page
        left = blocks % len(self._phase)
        while left >= self._step(steps):
            left -= self._step(steps)
            steps += 1
        return steps

    def _step(self, ahead: int) -> int:
        """Requests whose last block is full after so many steps, so that the next one takes a block each."""
        return self._count[-(self._steps + ahead) % self._page]
