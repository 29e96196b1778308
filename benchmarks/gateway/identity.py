"""Recorded conversations, told apart by nothing but what they say: is each one agent, and no two the same?

Each session is played as the requests that made it: all before each thing the model said. Many are in flight at a time,
in any order; what is sent and answered is what a gateway would have seen.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from concur_agents.gateway.conversation import read_conversation, spoken
from concur_agents.gateway.histories import Histories

__all__ = ["AT_ONCE", "Told", "play", "read_sessions"]

AT_ONCE: Final = 64
"""Requests in flight at most."""
_PATH: Final = "/v1/chat/completions"
_MODEL: Final = "assistant"

Session = Sequence[dict[str, Any]]
"""Its messages."""


@dataclass(slots=True)
class Told:
    """What came of it."""

    sessions: int = 0
    requests: int = 0
    agents: int = 0
    """That they were taken for."""
    mistaken: int = 0
    """Requests taken for another session's."""
    split: int = 0
    """Requests taken for a new agent's though their session had one."""

    def to_json(self) -> dict[str, int]:
        """For the record."""
        return asdict(self)


def read_sessions(path: Path) -> list[Session]:
    """Objects with ``messages``: one a line (``.jsonl``, ``.jsonl.gz``), or a file each of a folder (mini-swe-agent's).

    Raises:
        ValueError: there is none.
    """
    objects = (each for each in _objects(path) if isinstance(each, dict))
    found = [each["messages"] for each in objects if isinstance(each.get("messages"), list)]
    sessions = [session for session in found if any(message["role"] == _MODEL for message in session)]
    if not sessions:
        raise ValueError(f"{path} holds no conversation in which a model speaks")
    return sessions


def _objects(path: Path) -> Iterator[Any]:
    if path.is_dir():
        for file in sorted(path.rglob("*.json")):
            yield json.loads(file.read_text())
        return
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        yield from map(json.loads, lines)


def play(sessions: Sequence[Session], seed: int = 0) -> Told:
    """All of them, some at a time, in an order drawn by ``seed``."""
    rng = random.Random(seed)
    told = Told(sessions=len(sessions))
    histories = Histories()
    turns = [[at for at, message in enumerate(each) if message["role"] == _MODEL] for each in sessions]
    done = [0] * len(sessions)
    free = list(range(len(sessions)))
    flying: dict[int, str] = {}
    sessions_of: dict[str, int] = {}
    agents_of: dict[int, str] = {}
    while free or flying:
        if free and len(flying) < AT_ONCE and (not flying or rng.random() < 0.5):
            session = free.pop(rng.randrange(len(free)))
            messages = sessions[session][: turns[session][done[session]]]
            conversation = read_conversation(_PATH, {"messages": messages}, ())
            assert conversation is not None  # noqa: S101 - a model that speaks first was asked nothing
            busy = set(flying.values())
            agent = histories.find(conversation, lambda each, busy=busy: each not in busy)  # type: ignore[misc]
            if agent is None:
                agent = f"agent-{told.agents}"
                told.agents += 1
            histories.asked(agent, conversation)
            told.requests += 1
            told.mistaken += sessions_of.setdefault(agent, session) != session
            told.split += agents_of.setdefault(session, agent) != agent
            flying[session] = agent
        else:
            session = rng.choice(list(flying))
            histories.answered(flying.pop(session), spoken(sessions[session][turns[session][done[session]]]))
            done[session] += 1
            if done[session] < len(turns[session]):
                free.append(session)
    return told
