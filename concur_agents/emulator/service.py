"""One emulated server without its HTTP: engine, tokenizer and scripts, and how a request becomes an output."""

from __future__ import annotations

import time
import uuid
import zlib
from dataclasses import dataclass, field

from concur_agents.emulator.config import EngineConfig
from concur_agents.emulator.cost import CostModel
from concur_agents.emulator.driver import Driver, Generation
from concur_agents.emulator.presets import get_preset
from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.radix import TOKEN_BYTES, pack
from concur_agents.emulator.request import FinishReason, Request
from concur_agents.emulator.results import QueueFullError, TooLongError
from concur_agents.emulator.scheduler import Scheduler
from concur_agents.emulator.scripts import ScriptedReply, ScriptStore
from concur_agents.emulator.tokenizer import ByteTokenizer, Reply, Tokenizer

__all__ = ["Answer", "Service", "ServiceConfig"]

CHATTY_TOKENS = 128
"""Length of a reply that nobody limited: a real model would stop by itself somewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """What a server is started with.

    Raises:
        ValueError: naming the field and its value.
    """

    engine: EngineConfig = field(default_factory=lambda: get_preset("laptop").config)
    cost: CostModel = field(default_factory=lambda: get_preset("laptop").cost)
    model: str = field(default_factory=lambda: get_preset("laptop").model)
    """Name in ``/v1/models`` and in the metrics' labels."""
    speedup: float = 1.0
    """Engine seconds per second."""
    seed: int = 0
    """Of the filler text."""
    enable_cache_report: bool = True
    """Whether usage tells the cached tokens (SGLang: only with ``--enable-cache-report``)."""
    enable_metrics: bool = True
    """Whether ``/metrics`` is there (SGLang: only with ``--enable-metrics``)."""

    def __post_init__(self) -> None:
        if not 0 < self.speedup < float("inf"):
            raise ValueError(f"speedup must be positive and finite, got {self.speedup}")
        if not self.model:
            raise ValueError(f"model must not be empty, got {self.model!r}")

    @classmethod
    def preset(cls, name: str, *, speedup: float = 1.0, seed: int = 0) -> ServiceConfig:
        """A preset's engine (see ``presets.py``).

        Raises:
            ValueError: when there is none of that name.
        """
        preset = get_preset(name)
        return cls(engine=preset.config, cost=preset.cost, model=preset.model, speedup=speedup, seed=seed)


@dataclass(slots=True, kw_only=True)
class Answer:
    """A generation and what its text is."""

    generation: Generation
    reply: Reply | None
    """The scripted reply; None for text that is just the output tokens."""
    natural: int
    """Output tokens after which the reply is complete."""

    @property
    def request(self) -> Request:
        """The engine's request."""
        return self.generation.request

    def share(self, out: int) -> float:
        """How much of the reply is out after so many tokens. 0..1."""
        return min(1.0, out / self.natural) if self.natural else 1.0


class Service:
    """Everything behind the HTTP endpoints. Belongs to the event loop it is first used on."""

    def __init__(self, config: ServiceConfig, tokenizer: Tokenizer | None = None) -> None:
        self.config = config
        self.tokenizer: Tokenizer = tokenizer or ByteTokenizer()
        self.scheduler = Scheduler(config.engine, config.cost)
        self.driver = Driver(self.scheduler, speedup=config.speedup)
        self.scripts = ScriptStore()
        self.started_at = int(time.time())
        self._rids: set[str] = set()

    def start(
        self,
        prompt: bytes,
        *,
        max_tokens: int | None,
        rid: str | None = None,
        ignore_eos: bool = False,
        streaming: bool = False,
        scripted: ScriptedReply | None = None,
        output: bytes | None = None,
    ) -> Answer:
        """Queue one generation: a scripted reply, given output tokens, or filler.

        Raises:
            BadRequestError: when the engine will not take it.
        """
        rid = rid or uuid.uuid4().hex
        if rid in self._rids:
            raise BadRequestError(f"Duplicate request ID detected: {rid}")
        self._check(len(prompt) // TOKEN_BYTES, max_tokens)
        reply = scripted.reply if scripted is not None else None
        stops = scripted is not None or (max_tokens is None and not ignore_eos)
        if scripted is not None:
            tokens = self._scripted(scripted, prompt)
        elif output is not None:
            tokens = output
        else:
            room = self.config.engine.max_request_tokens - len(prompt) // TOKEN_BYTES
            length = CHATTY_TOKENS if stops else min(room, room if max_tokens is None else max_tokens)
            tokens = self._filler(max(length, 0), prompt)
        request = Request(
            rid,
            prompt,
            tokens,
            max_new_tokens=(1 << 30) if max_tokens is None else max_tokens,
            stops=stops,
            ignore_eos=ignore_eos,
            streaming=streaming,
        )
        try:
            generation = self.driver.submit(request)
        except TooLongError as problem:
            raise BadRequestError(str(problem)) from problem
        except QueueFullError as problem:
            raise BadRequestError(str(problem), status=503, kind="503") from problem
        self._rids.add(rid)
        return Answer(generation=generation, reply=reply, natural=len(tokens) // TOKEN_BYTES)

    def release(self, answer: Answer) -> None:
        """The answer has been given, or nobody wants it any more: end what still runs, and free its name."""
        self._rids.discard(answer.request.rid)
        if answer.request.finish_reason is None:
            self.driver.abort_request(answer.request)

    def failure(self, request: Request) -> BadRequestError | None:
        """The HTTP error that an ended request turns into; None for one that simply ended or was aborted."""
        if request.finish_reason is FinishReason.ABORT and request.failed:
            return BadRequestError(request.abort_message or "Aborted", status=500, kind="500")
        return None

    async def probe(self) -> None:
        """SGLang's health check: an idle engine generates a token, which leaves its marks in cache and gauges."""
        if self.scheduler.idle and not self.driver.paused:
            request = Request(f"HEALTH_CHECK_{uuid.uuid4().hex}", pack([0]), pack([0]), stops=False, probe=True)
            await self.driver.submit(request).done.wait()

    def _check(self, prompt: int, max_tokens: int | None) -> None:
        if max_tokens is not None and max_tokens < 0:
            raise BadRequestError(f"max_new_tokens must be at least 0, got {max_tokens}.")
        length = self.config.engine.context_length
        if prompt < length and max_tokens is not None and prompt + max_tokens > length:
            raise BadRequestError(
                f"Requested token count exceeds the model's maximum context length of {length} tokens. You requested "
                f"a total of {prompt + max_tokens} tokens: {prompt} tokens from the input messages and {max_tokens} "
                "tokens for the completion. Please reduce the number of tokens in the input messages or the "
                "completion to fit within the limit."
            )

    def _scripted(self, scripted: ScriptedReply, prompt: bytes) -> bytes:
        tokens = self.tokenizer.render_reply(scripted.reply)
        count = len(tokens) // TOKEN_BYTES
        wanted = scripted.output_tokens or count
        if wanted <= count:
            return tokens[: wanted * TOKEN_BYTES]
        return tokens + self._filler(wanted - count, prompt)

    def _filler(self, count: int, prompt: bytes) -> bytes:
        return self.tokenizer.filler(count, zlib.crc32(prompt, self.config.seed))
