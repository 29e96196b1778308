"""What a command printed, within bounds."""

from __future__ import annotations

__all__ = ["Output"]


class Output:
    """The first and the last half of what was read."""

    def __init__(self, kept_bytes: int) -> None:
        self._half = kept_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, chunk: bytes) -> None:
        """Take what was read next."""
        self.total += len(chunk)
        room = self._half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        del self._tail[: -self._half]

    @property
    def left_out(self) -> int:
        """Bytes in the middle that are not kept."""
        return self.total - len(self._head) - len(self._tail)

    def text(self) -> str:
        """All that is kept, undecodable bytes replaced, with a line that says what is missing."""
        if not self.left_out:
            return (self._head + self._tail).decode(errors="replace")
        head, tail = (part.decode(errors="replace") for part in (self._head, self._tail))
        return f"{head}\n[... {self.left_out} bytes left out ...]\n{tail}"
