"""One generation as the engine sees it, and how it ends."""

from __future__ import annotations

import enum

from concur_agents.emulator.radix import TOKEN_BYTES, Node

__all__ = ["FinishReason", "Request"]


class FinishReason(enum.StrEnum):
    """SGLang's ``finish_reason.type``."""

    STOP = "stop"
    """The model ended by itself."""
    LENGTH = "length"
    """It reached the most tokens it was allowed."""
    ABORT = "abort"
    """Somebody, or lack of memory, ended it."""


class Request:
    """A prompt, the output it is going to have, and how far it has come.

    The emulator does no arithmetic on weights, so the output is known beforehand; the scheduler hands it out a
    token a step.

    Args:
        rid: the caller's name for it; aborts match it.
        prompt: packed token ids, at least one.
        output: packed token ids of the whole output.
        max_new_tokens: most output tokens; None for as many as fit.
        stops: whether the model stops by itself after ``output`` (else the output is cut off there, as by length).
        ignore_eos: admission then reserves the whole output, as SGLang does for fixed-length requests.
        streaming: only a label of the metrics.
        probe: a health check, which is not counted among the requests that ended.
    """

    __slots__ = (
        "abort_message",
        "abort_wanted",
        "already_computed",
        "cached_tokens",
        "extend_end",
        "failed",
        "finish_reason",
        "finish_step",
        "finished_at",
        "first_token_at",
        "host_tokens",
        "ignore_eos",
        "inserted",
        "kv_tokens",
        "max_new_tokens",
        "node",
        "out",
        "output",
        "prefix",
        "probe",
        "prompt",
        "protected",
        "retractions",
        "rid",
        "scheduled_at",
        "step_base",
        "stops",
        "streaming",
        "submitted_at",
    )

    def __init__(
        self,
        rid: str,
        prompt: bytes,
        output: bytes,
        *,
        max_new_tokens: int | None = None,
        stops: bool = True,
        ignore_eos: bool = False,
        streaming: bool = False,
        probe: bool = False,
    ) -> None:
        if not prompt:
            raise ValueError("prompt must hold at least one token")
        self.rid = rid
        self.prompt = prompt
        self.output = output
        self.max_new_tokens = len(output) // TOKEN_BYTES if max_new_tokens is None else max_new_tokens
        """After submitting: clipped to what context length and pool allow."""
        self.stops = stops
        self.ignore_eos = ignore_eos
        self.streaming = streaming
        self.probe = probe

        self.out = 0
        """Output tokens so far. While the request runs it is brought up to date when the scheduler touches it."""
        self.cached_tokens = 0
        """Prompt tokens found in the cache when it was first scheduled (SGLang's ``cached_tokens``)."""
        self.host_tokens = 0
        """Of those, what came from host memory."""
        self.retractions = 0
        self.finish_reason: FinishReason | None = None
        self.abort_message: str | None = None
        self.abort_wanted = False
        """Ends with its next forward pass."""
        self.failed = False
        """The engine ended it for want of memory, or because it broke."""

        self.prefix = 0
        """Tokens already computed before the next extend."""
        self.extend_end = 0
        """Tokens computed after it."""
        self.already_computed = 0
        self.kv_tokens = 0
        """Tokens with KV in the pool. Brought up to date as ``out``."""
        self.protected = 0
        """The first so many of them live in the tree, under our lock."""
        self.node: Node | None = None
        """The locked node; None while nothing is held."""
        self.inserted = 0
        """The first so many tokens it has put into the tree itself."""

        self.submitted_at = 0.0
        self.scheduled_at: float | None = None
        self.first_token_at: float | None = None
        self.finished_at: float | None = None
        """Engine seconds."""
        self.step_base = 0
        self.finish_step = 0
        """The decode batch's: the step that ``out`` is up to date with, and the one that ends it (0: not running)."""

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return len(self.prompt) // TOKEN_BYTES

    @property
    def target(self) -> int:
        """Output tokens it will have, unless aborted."""
        return min(len(self.output) // TOKEN_BYTES, self.max_new_tokens)

    def tokens(self, count: int | None = None) -> bytes:
        """Prompt and output so far; with ``count`` the first so many of them."""
        if count is None:
            return self.prompt + self.output[: self.out * TOKEN_BYTES]
        if count <= self.prompt_tokens:
            return self.prompt[: count * TOKEN_BYTES]
        return self.prompt + self.output[: (count - self.prompt_tokens) * TOKEN_BYTES]
