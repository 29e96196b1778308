"""What a reply says of its tokens, seen as it passes, whole or as a stream; the bytes themselves are never touched."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from concur_agents.gateway.conversation import said_in
from concur_agents.usage import TokenUsage

__all__ = ["ReplyWatch"]

_MOST: Final = 16 * 2**20
"""Bytes of a whole reply that are kept to be read; of a longer one, nothing is known."""
_LONGEST_LINE: Final = 2**20
# In a stream nearly every event says that it knows nothing yet: those are not parsed.
_TELLING = re.compile(rb'"usage"\s*:\s*\{|"meta_info"\s*:\s*\{|"(?:finish|stop)_reason"\s*:\s*"')
# The last event of a stream: of the chat APIs, of messages, of responses.
_ENDED = re.compile(
    rb'^data:\s*\[DONE\]|"type"\s*:\s*"(?:message_stop|response\.(?:completed|failed|incomplete))"', re.MULTILINE
)
# In place of the rest of a stream: of SGLang and new vLLM, of older vLLM, of messages; of responses.
_FAILED = re.compile(
    rb'^data:\s*\{\s*"(?:error"\s*:\s*\{|(?:object|type)"\s*:\s*"error")|"type"\s*:\s*"response\.failed"', re.MULTILINE
)
_ENDINGS = ("stop", "end_turn")
_CALLS = re.compile(
    rb'"(?:finish|stop)_reason"\s*:\s*"tool_(?:calls|use)"|"type"\s*:\s*"(?:function|custom_tool)_call"'
)
# How agents of OpenHands, SWE-agent, mini-swe-agent, smolagents and Cline say that they have done their task. Whoever
# uses these words otherwise is parked sooner than need be, no more.
_DONE = re.compile(
    rb'"name"\s*:\s*"(?:finish|submit|final_answer|attempt_completion)"|COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT'
)


class ReplyWatch:
    """Watches one reply.

    Args:
        status: HTTP's.
        content_type: of the reply.
        encoding: of the reply's content; a compressed one is not read.
    """

    def __init__(self, status: int, content_type: str, encoding: str = "") -> None:
        self._read = status == 200 and encoding.lower() in ("", "identity")
        self._streams = content_type.lower().startswith("text/event-stream")
        self._rest = bytearray()
        self._first: bytes | None = None
        self._last: bytes | None = None
        self.usage = TokenUsage()
        """What the reply says; unknown until :meth:`end`."""
        self.said: bytes | None = None
        """What tells this reply from others, where it is known."""
        self.ended = False
        """A stream's last event has come: its client may not wait for the connection's end."""
        self.response_id: str | None = None
        """Under which the responses API goes on from this reply."""
        self.failed = status >= 400
        """It is an error, after which a client asks the same again; of a stream, it ends in one."""
        self.ends_turn = False
        """The model has finished by itself and called no tool, or a tool that ends its task."""
        self.calls_tools = False
        """The model called a tool, by the API's own means."""
        self.ends_task = False
        """The latter: not what every reply of an agent looks like that calls its tools by text."""

    def feed(self, chunk: bytes) -> None:
        """The next bytes. Never raises."""
        if not self._read:
            return
        if not self._streams:
            if len(self._rest) + len(chunk) > _MOST:
                self._read = False
                self._rest.clear()
                return
            self._rest += chunk
            return
        whole, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            if len(self._rest) + len(chunk) > _LONGEST_LINE:
                self._rest.clear()  # what is cut is no JSON, and so tells nothing
            self._rest += chunk
            return
        lines = bytes(self._rest) + whole
        self._rest[:] = rest
        self.ended = self.ended or _ENDED.search(lines) is not None
        self.failed = self.failed or _FAILED.search(lines) is not None
        self.ends_task = self.ends_task or _DONE.search(lines) is not None
        self.calls_tools = self.calls_tools or _CALLS.search(lines) is not None
        if _TELLING.search(lines):
            for line in lines.split(b"\n"):
                if line.startswith(b"data:") and _TELLING.search(line):
                    self._first = self._first or line
                    self._last = line if self._first is not line else self._last

    def end(self) -> None:
        """The reply is over: read what was kept. Never raises."""
        if not self._read:
            return
        if self._streams:
            for line in (self._first, self._last):
                if line is not None:
                    self._take(line.removeprefix(b"data:"), whole=False)
        else:
            self.ends_task = _DONE.search(self._rest) is not None
            self.calls_tools = _CALLS.search(self._rest) is not None
            self._take(bytes(self._rest), whole=True)
        self.ends_turn |= self.ends_task
        self._rest.clear()

    def _take(self, text: bytes, *, whole: bool) -> None:
        # Whatever an engine sends is passed on; what of it is no JSON, or of another shape, tells nothing.
        with contextlib.suppress(ValueError, RecursionError, TypeError, AttributeError, KeyError, IndexError):
            item = json.loads(text)
            if isinstance(item, list) and len(item) == 1:
                item = item[0]  # of /generate, which answers a list with a list
            for usage in _usages(item):
                new, old = TokenUsage.of(usage), self.usage
                # Anthropic's streams tell the prompt's tokens first and the output's last.
                self.usage = TokenUsage(
                    prompt=old.prompt if new.prompt is None else new.prompt,
                    cached=old.cached if new.cached is None else new.cached,
                    output=old.output if new.output is None else new.output,
                )
            self.ends_turn |= _ending(item)
            response = item.get("response", item)
            if response.get("object") == "response" and isinstance(response.get("id"), str):
                self.response_id = response["id"]
                self.failed |= response.get("status") == "failed"
            if whole:
                self.said = said_in(item)


def _usages(item: Mapping[str, Any]) -> Iterator[Any]:
    for holder in (item, item.get("response"), item.get("message")):
        if isinstance(holder, dict):
            for name in ("usage", "meta_info"):
                if isinstance(holder.get(name), dict):
                    yield holder[name]


def _ending(item: Mapping[str, Any]) -> bool:
    response = item.get("response", item)
    if response.get("object") == "response":
        called = (str(output.get("type")).endswith("_call") for output in response.get("output") or ())
        return response.get("status") == "completed" and not any(called)
    choices = item.get("choices") or ()
    reasons = [choice.get("finish_reason") for choice in choices if isinstance(choice, dict)]
    delta = item.get("delta")
    reasons += [holder.get("stop_reason") for holder in (item, delta) if isinstance(holder, dict)]
    return any(reason in _ENDINGS for reason in reasons) and not any(
        isinstance(choice.get("message"), dict) and choice["message"].get("tool_calls") for choice in choices
    )
