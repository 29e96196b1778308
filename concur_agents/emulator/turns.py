"""One assistant's turn, whichever API asks for it: how it begins, what of it is out, and how it ended."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.radix import TOKEN_BYTES
from concur_agents.emulator.request import FinishReason
from concur_agents.emulator.service import Answer, Service
from concur_agents.emulator.wire import gone

__all__ = ["Call", "Turn", "render", "wait_for"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the reply."""

    id: str
    name: str
    arguments: str
    """JSON."""


class Turn:
    """The reply to a chat, on its way.

    Args:
        service: whose.
        answer: the generation.
    """

    def __init__(self, service: Service, answer: Answer) -> None:
        self.service = service
        self.answer = answer
        self._calls: tuple[Call, ...] | None = None

    def parts(self, out: int | None = None) -> tuple[str, str]:
        """Reasoning and text that so many tokens show (None: all there are): as much of the reply as of its tokens."""
        out = self.answer.request.out if out is None else out
        reply = self.answer.reply
        if reply is None:
            return "", self.service.tokenizer.decode(self.answer.request.output[: out * TOKEN_BYTES])
        thought, said = reply.reasoning or "", reply.content or ""
        shown = int((len(thought) + len(said)) * self.answer.share(out))
        return thought[:shown], said[: max(0, shown - len(thought))]

    async def deltas(self) -> AsyncIterator[tuple[str, str]]:
        """What is new of reasoning and text, as it comes; ends with the generation."""
        thought, said = 0, 0
        async for out in self.answer.generation.progress():
            reasoning, text = self.parts(out)
            if len(reasoning) > thought or len(text) > said:
                yield reasoning[thought:], text[said:]
                thought, said = len(reasoning), len(text)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The tool calls, once the reply is there in whole; one that was cut has none."""
        reply = self.answer.reply
        if reply is None or self.answer.request.finish_reason is not FinishReason.STOP:
            return ()
        if self._calls is None:
            self._calls = tuple(Call(f"call_{uuid.uuid4().hex[:24]}", *call) for call in reply.tool_calls)
        return self._calls

    @property
    def reason(self) -> str:
        """Why it ended, in the words of the chat API."""
        return "tool_calls" if self.calls else str(self.answer.request.finish_reason or FinishReason.ABORT)

    @property
    def failure(self) -> BadRequestError | None:
        """What the engine's failure is to its client; None where there was none."""
        return self.service.failure(self.answer.request)

    @property
    def prompt_tokens(self) -> int:
        """As the engine counts them: one that was aborted in the queue has never been counted."""
        request = self.answer.request
        return 0 if request.scheduled_at is None else request.prompt_tokens

    def release(self) -> None:
        """Whoever asked has the reply, or is gone."""
        self.service.release(self.answer)


def render(service: Service, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None) -> bytes:
    """A chat as a prompt.

    Raises:
        BadRequestError: the chat template cannot take it.
    """
    try:
        return service.tokenizer.render(messages, tools)
    except ValueError as problem:
        raise BadRequestError(str(problem)) from problem


async def wait_for(request: Request, service: Service, *answers: Answer) -> None:
    """Wait until all have ended; end them all when the client leaves.

    Raises:
        BadRequestError: when the engine could not go on with one.
    """
    ended = asyncio.ensure_future(_all_done(answers))
    left = asyncio.ensure_future(gone(request.receive))
    try:
        await asyncio.wait((ended, left), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (ended, left):
            task.cancel()
        await asyncio.gather(ended, left, return_exceptions=True)
        for answer in answers:
            service.release(answer)
    for answer in answers:
        if (problem := service.failure(answer.request)) is not None:
            raise problem


async def _all_done(answers: tuple[Answer, ...]) -> None:
    for answer in answers:
        await answer.generation.done.wait()
