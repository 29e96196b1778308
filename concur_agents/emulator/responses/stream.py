"""A response as its events."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from typing import Any

from concur_agents.emulator.problems import BadRequestError
from concur_agents.emulator.responses.reply import (
    ResponseReply,
    call_item,
    failed,
    message_item,
    reasoning_item,
    snapshot,
    usage,
)
from concur_agents.emulator.responses.request import Asked
from concur_agents.emulator.turns import Call

__all__ = ["broken", "events"]

Event = dict[str, Any]


async def events(reply: ResponseReply) -> AsyncIterator[Event]:
    """The reply as it comes.

    Where tools may be called, what the model says is held back until it is known whether calls follow it.
    """
    items = _Items(reply.asked)
    begun = snapshot(reply.asked, reply.created, status="in_progress")
    for kind in ("response.created", "response.in_progress"):
        yield items.numbered({"type": kind, "response": begun})
    async for thought, said in reply.turn.deltas():
        for event in items.think(thought):
            yield event
        for event in items.say(said):
            yield event
    reply.turn.release()
    for call in reply.turn.calls:
        for event in items.call(call):
            yield event
    for event in items.close():
        yield event
    ended = reply.ended(items.done)
    for event in items.last({"type": f"response.{ended['status']}", "response": ended}):
        yield event


async def broken(asked: Asked, problem: BadRequestError) -> AsyncIterator[Event]:
    """A stream that says nothing but why."""
    created = int(time.time())
    begun = snapshot(asked, created, status="in_progress")
    # What the engine refuses is counted, with nothing used; what never reached it is not.
    used = usage() if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR else None
    ended = snapshot(asked, created, status="failed", used=used, error=failed(str(problem)))
    for number, (kind, response) in enumerate((("created", begun), ("in_progress", begun), ("failed", ended))):
        yield {"type": f"response.{kind}", "response": response, "sequence_number": number}


class _Items:
    """The output items of a stream: one is open at a time."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._number = 0
        self._index = -1
        self._open: str | None = None
        self._id = ""
        self._text = ""
        self._holds = bool(asked.shown_tools)
        self._held: list[Event] = []
        self.done: list[dict[str, Any]] = []
        """What has been said in whole."""

    def numbered(self, event: Event) -> Event:
        """The next event of the stream."""
        event["sequence_number"] = self._number
        self._number += 1
        return event

    def think(self, text: str) -> Iterator[Event]:
        """More reasoning."""
        if not text:
            return
        if self._open != "reasoning":
            yield from self.close()
            self._begin("reasoning", f"rs_{uuid.uuid4().hex}")
            item: Event = {"id": self._id, "summary": [], "type": "reasoning", "content": [], "encrypted_content": None}
            yield self._event("output_item.added", item={**item, "status": "in_progress"})
            kind, where = self._reasoning()
            part = {"text": "", "type": "summary_text" if "summary_index" in where else "reasoning_text"}
            yield self._event(
                f"{kind}_part.added" if "summary_index" in where else "content_part.added",
                item_id=self._id,
                part=part,
                **where,
            )
        self._text += text
        kind, where = self._reasoning()
        yield self._event(f"{kind}_text.delta", item_id=self._id, delta=text, **where)

    def say(self, text: str) -> Iterator[Event]:
        """More text."""
        if not text:
            return
        if self._open != "message":
            yield from self.close()
            self._begin("message", f"msg_{uuid.uuid4().hex}")
            item = {**message_item("", phase="final_answer", item_id=self._id), "content": [], "status": "in_progress"}
            yield from self._maybe(self._event("output_item.added", item=item))
            part: Event = {"annotations": [], "text": "", "type": "output_text", "logprobs": None}
            yield from self._maybe(self._event("content_part.added", item_id=self._id, content_index=0, part=part))
        self._text += text
        where: Event = {"item_id": self._id, "content_index": 0}
        yield from self._maybe(self._event("output_text.delta", **where, delta=text, logprobs=[]))

    def call(self, call: Call) -> Iterator[Event]:
        """A tool call, in whole."""
        yield from self.close()
        for item in self.done:
            if item["type"] == "message":
                item["phase"] = "commentary"
        begun = call_item(self._asked, call, begun="")
        self._begin("call", begun["id"])
        yield from self._release("commentary", self._event("output_item.added", item=begun))
        item = call_item(self._asked, call, item_id=self._id)
        if item["type"] == "custom_tool_call":
            kind, given = "custom_tool_call_input", {"input": item["input"]}
        else:
            kind, given = "function_call_arguments", {"arguments": item["arguments"], "name": item["name"]}
        text = item.get("input", item.get("arguments"))
        if text:
            yield self._event(f"{kind}.delta", item_id=self._id, delta=text)
        yield self._event(f"{kind}.done", item_id=self._id, **given)
        yield from self._end(item)

    def close(self) -> Iterator[Event]:
        """End the open item, if there is one."""
        if self._open == "reasoning":
            kind, where = self._reasoning()
            summary = "summary_index" in where
            yield self._event(f"{kind}_text.done", item_id=self._id, text=self._text, **where)
            part = {"text": self._text, "type": "summary_text" if summary else "reasoning_text"}
            yield self._event(
                f"{kind}_part.done" if summary else "content_part.done", item_id=self._id, part=part, **where
            )
            yield from self._end(reasoning_item(self._asked, self._text, self._id))
        elif self._open == "message":
            item = message_item(self._text, phase="final_answer", item_id=self._id)
            where = {"item_id": self._id, "content_index": 0}
            yield from self._maybe(self._event("output_text.done", **where, text=self._text, logprobs=[]))
            yield from self._maybe(self._event("content_part.done", **where, part=item["content"][0]))
            yield from self._end(item)

    def last(self, event: Event) -> Iterator[Event]:
        """The event that ends the stream, and what was held back."""
        yield from self._release("final_answer", self.numbered(event))

    def _begin(self, kind: str, item_id: str) -> None:
        self._open, self._id, self._text = kind, item_id, ""
        self._index += 1

    def _end(self, item: dict[str, Any]) -> Iterator[Event]:
        self.done.append(item)
        yield from self._maybe(self._event("output_item.done", item=dict(item)))
        self._open = None

    def _event(self, kind: str, **fields: Any) -> Event:
        return self.numbered({"type": f"response.{kind}", "output_index": self._index, **fields})

    def _reasoning(self) -> tuple[str, Event]:
        if self._asked.reasoning.get("summary"):
            return "reasoning_summary", {"summary_index": 0}
        return "reasoning", {"content_index": 0}

    def _maybe(self, event: Event) -> Iterator[Event]:
        """Now, or once its phase is known."""
        if self._held or (self._holds and self._open == "message"):
            self._held.append(event)
        else:
            yield event

    def _release(self, phase: str, event: Event) -> Iterator[Event]:
        for held in self._held:
            if held.get("item", {}).get("type") == "message":
                held["item"]["phase"] = phase
            yield held
        self._held.clear()
        yield event
