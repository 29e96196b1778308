"""Recorded trajectories, played again: their lengths and tool times, and their text where there is text.

Read are mini-swe-agent's ``*.traj.json`` and JSON lines of ``messages``; SWE-agent's ``*.traj``; OpenHands' event logs
(a JSON list); and steps alone, ``{"steps": [{"p": 2036, "o": 77, "tool_s": 0.3}, ...]}``, for which words are made up.
Each also gzipped, or a folder of them. A tool does nothing but take as long, and answer as it did.
"""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from benchmarks.engines.words import text as words
from benchmarks.recorded import from_messages, from_steps
from concur_agents.usage import TokenUsage

__all__ = ["RecordedTurn", "Recording", "RecordingError", "read_recordings"]

SUFFIXES = (".traj.json", ".traj", ".jsonl", ".json")
CHARS_PER_TOKEN = 4
MOST_TOOL_S = 600.0
"""Seconds that a tool takes at most: a person's night is no tool."""


class RecordingError(ValueError):
    """A recording cannot be read. The message names the file, the line where there are lines, and what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTurn:
    """One generation, and what its tool said."""

    content: str
    output_tokens: int
    """At least 1."""
    command: str = ""
    observation: str = ""
    tool_s: float = 0.0
    """Seconds by the recording's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One agent's life."""

    name: str
    problem: str
    """All it was told before its first generation."""
    turns: tuple[RecordedTurn, ...]

    @property
    def script(self) -> list[dict[str, Any]]:
        """Its replies, in the form that the embedded engine takes; the last calls no tool."""
        last = len(self.turns) - 1
        return [
            {
                "content": turn.content,
                "tool_calls": None
                if number == last
                else [{"name": "bash", "arguments": {"command": turn.command or f"# step {number}"}}],
                "output_tokens": turn.output_tokens,
            }
            for number, turn in enumerate(self.turns)
        ]


def read_recordings(path: Path) -> tuple[Recording, ...]:
    """All recordings of a file or folder, in the order of names and lines; those without a generation are left out.

    Raises:
        RecordingError: see there.
    """
    found: list[Recording] = []
    for file in _files(path):
        for where, data in _documents(file):
            try:
                recording = _reader(data, where)(data, file.name.partition(".")[0])
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                field = ".".join(str(part) for part in first["loc"])
                raise RecordingError(f"{where}: {field}: {first['msg']}") from None
            except RecordingError:
                raise
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise RecordingError(f"{where}: not as such recordings are: {error!r}") from None
            if recording.turns:
                found.append(recording)
    if not found:
        raise RecordingError(f"{path}: no recording has a generation")
    return tuple(found)


def _files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.name.removesuffix(".gz").endswith(SUFFIXES))
    if not found:
        raise RecordingError(f"{path}: the folder has no file that ends in {', '.join(SUFFIXES)}")
    return found


def _documents(file: Path) -> Iterator[tuple[str, Any]]:
    try:
        content = file.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        text = content.decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise RecordingError(f"{file}: cannot be read: {error}") from None
    if not file.name.removesuffix(".gz").endswith(".jsonl"):
        yield str(file), _json(text, str(file))
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{file}:{number}", _json(line, f"{file}:{number}")


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{where}: is no JSON: {error}") from None


def _reader(data: Any, where: str) -> Callable[[Any, str], Recording]:
    if isinstance(data, list):
        return _openhands
    if isinstance(data, Mapping):
        for key, reader in (("steps", _steps), ("messages", _messages), ("trajectory", _swe_agent)):
            if key in data:
                return reader
    raise RecordingError(f"{where}: has none of steps, messages, trajectory, and is no list of events")


# --- steps alone ---


def _steps(data: Mapping[str, Any], name: str) -> Recording:
    session = from_steps(data)
    rng = random.Random(session.name)
    turns: list[RecordedTurn] = []
    for number, step in enumerate(session.steps):
        follows = session.steps[number + 1] if number + 1 < len(session.steps) else None
        added = 0 if follows is None else max(0, follows.prompt - step.prompt - step.output)
        turns.append(
            RecordedTurn(
                content=words(rng, step.output),
                output_tokens=step.output,
                observation=words(rng, added),
                tool_s=min(step.tool_s, MOST_TOOL_S),
            )
        )
    shared = words(random.Random("shared"), session.prefix_tokens)
    own = session.steps[0].prompt - session.prefix_tokens if session.steps else 0
    return Recording(
        name=session.name if session.name != "session" else name,
        problem=shared + words(rng, max(0, own)),
        turns=tuple(turns),
    )


# --- messages: mini-swe-agent and everything like it ---


def _messages(data: Mapping[str, Any], name: str) -> Recording:
    steps = iter(from_messages(data).steps)
    messages: Sequence[Mapping[str, Any]] = data["messages"]
    problem: list[str] = []
    turns: list[RecordedTurn] = []
    for message in messages:
        if message.get("role") == "assistant" or message.get("object") == "response":
            step = next(steps)
            turns.append(
                RecordedTurn(
                    content=_text(message.get("content")),
                    output_tokens=step.output,
                    command=_command(message),
                    tool_s=min(step.tool_s, MOST_TOOL_S),
                )
            )
        elif turns:
            turns[-1] = _answered(turns[-1], _text(message.get("content")))
        else:
            problem.append(_text(message.get("content")))
    return Recording(name=_name(data, name), problem="\n".join(problem), turns=tuple(turns))


def _command(message: Mapping[str, Any]) -> str:
    for call in message.get("tool_calls") or ():
        arguments = call.get("function", {}).get("arguments", "")
        try:
            parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
        except ValueError:
            return str(arguments)
        return str(parsed.get("command", arguments)) if isinstance(parsed, Mapping) else str(arguments)
    return ""


# --- SWE-agent ---


def _swe_agent(data: Mapping[str, Any], name: str) -> Recording:
    told = [
        _text(message.get("content"))
        for message in data.get("history") or ()
        if message.get("role") in ("system", "user") and not message.get("is_demo")
    ]
    turns = tuple(
        RecordedTurn(
            content=_text(step.get("response") or step.get("thought")),
            output_tokens=max(1, len(_text(step.get("response") or step.get("thought"))) // CHARS_PER_TOKEN),
            command=_text(step.get("action")).strip(),
            observation=_text(step.get("observation")),
            tool_s=min(max(0.0, float(step.get("execution_time") or 0.0)), MOST_TOOL_S),
        )
        for step in data["trajectory"]
    )
    return Recording(name=_name(data, name), problem="\n".join(told[:2]), turns=turns)


# --- OpenHands ---


def _openhands(events: Sequence[Mapping[str, Any]], name: str) -> Recording:
    problem: list[str] = []
    turns: list[RecordedTurn] = []
    asked: float | None = None
    for event in events:
        if "observation" in event:
            if turns:
                took = _seconds(event) - asked if asked is not None else 0.0
                answered = _answered(turns[-1], _text(event.get("content")))
                turns[-1] = replace(answered, tool_s=min(max(answered.tool_s, took), MOST_TOOL_S))
        elif event.get("source") == "agent" and "action" in event and event["action"] != "system":
            asked = _seconds(event)
            usage = TokenUsage.of(((event.get("tool_call_metadata") or {}).get("model_response") or {}).get("usage"))
            arguments = event.get("args") or {}
            said = _text(arguments.get("thought") or event.get("message"))
            turns.append(
                RecordedTurn(
                    content=said,
                    output_tokens=usage.output or max(1, (len(said) + len(_text(arguments))) // CHARS_PER_TOKEN),
                    command=_text(arguments.get("command") or arguments.get("code")),
                )
            )
        elif not turns and "action" in event:
            problem.append(_text((event.get("args") or {}).get("content") or event.get("message")))
    return Recording(name=name, problem="\n".join(filter(None, problem)), turns=tuple(turns))


def _seconds(event: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(str(event["timestamp"])).timestamp()


# --- all ---


def _answered(turn: RecordedTurn, text: str) -> RecordedTurn:
    return replace(turn, observation=f"{turn.observation}\n{text}" if turn.observation else text)


def _name(data: Mapping[str, Any], name: str) -> str:
    return str(data.get("instance_id") or data.get("id") or data.get("environment") or name)


def _text(content: object) -> str:
    if content is None:
        return ""
    return content if isinstance(content, str) else json.dumps(content)
