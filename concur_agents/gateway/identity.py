"""Whose request it is, as the request itself says: by headers and fields of the body, in the order of configuration.

What is said is believed: two clients that send the same id are one agent. What clients do not say is found by
:mod:`concur_agents.gateway.histories`.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from concur_agents.gateway.bodies import Body, field

__all__ = ["DEFAULT_IDENTITY", "PREFIX", "Claim", "Headers", "Identity", "is_final", "previous_response"]

PREFIX: Final = "prefix"
"""The source that takes a conversation to go on where one ended: by the messages themselves."""

DEFAULT_IDENTITY: Final = (
    "header:X-Session-ID",  # ours; Dynamo 1.4 knows it too
    "header:X-SMG-Routing-Key",  # SGLang's gateway, and SGLang itself (0.5.23)
    "header:x-dynamo-session-id",  # Dynamo 1.4
    "header:x-claude-code-session-id",  # Claude Code, with the sub-agent's id beside it
    "header:session-id",  # Codex
    "header:session_id",  # Codex, before that
    "header:x-opencode-session",  # OpenCode
    "body:session_id",  # SGLang's own field
    "body:program_id",  # ThunderAgent
    PREFIX,
)
"""Sources of an agent's id, the strongest first. ``body:user`` is not among them, since it names a person, who may run
many agents; it keeps conversations of different users apart."""

_PARENTS = ("x-dynamo-parent-session-id", "x-parent-session-id")
_FINAL = ("x-dynamo-session-final", "x-session-final")
_CLAUDE = "x-claude-code-session-id"
_CLAUDE_AGENT, _CLAUDE_PARENT = "x-claude-code-agent-id", "x-claude-code-parent-agent-id"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LONGEST = 200
_SURROGATES = re.compile(r"[\ud800-\udfff]")  # JSON can say one alone

Headers = Mapping[str, str]
"""By lower-case name; of several of one name the last."""


class Claim(NamedTuple):
    """What a request says of its agent."""

    agent_id: str
    parent: str | None = None
    """The agent whose seat it shares."""


class Identity:
    """Sources of an id, in their order.

    Args:
        sources: ``header:NAME``, ``body:FIELD`` (a dotted path) and, at most once, ``prefix``.

    Raises:
        ValueError: a source is none of these, or comes twice; names it.
    """

    def __init__(self, sources: tuple[str, ...] = DEFAULT_IDENTITY) -> None:
        if len(set(sources)) != len(sources):
            raise ValueError(f"identity must not name a source twice, got {', '.join(sources)}")
        self._sources = tuple(_parse(source) for source in sources)
        self.by_prefix: Final = PREFIX in sources
        """Whether conversations are matched where nothing is said."""

    async def claim(self, headers: Headers, body: Body) -> Claim | None:
        """What the request says; None when it says nothing. The body is parsed only if no header before it speaks."""
        for kind, name in self._sources:
            if not kind:
                continue  # conversations are matched when nobody has spoken
            if kind == "header":
                value = headers.get(name)
                if value:
                    return _of_header(name, value, headers)
            else:
                value = field(await body.parsed(), name)
                if value:
                    return Claim(_short(value), _parent(headers))
        return None


def is_final(headers: Headers) -> bool:
    """Whether the request is its agent's last."""
    return any(headers.get(name, "").lower() in ("1", "true") for name in _FINAL)


def previous_response(body: Mapping[str, Any]) -> str | None:
    """The reply that a request of the responses API goes on from."""
    return field(body, "previous_response_id")


def _of_header(name: str, value: str, headers: Headers) -> Claim:
    agent_id = _unquoted(value)
    if name == _CLAUDE and (sub := headers.get(_CLAUDE_AGENT)):
        # A sub-agent has a context of its own, and runs inside a tool of the one that started it.
        above = headers.get(_CLAUDE_PARENT)
        return Claim(_short(f"{agent_id}/{sub}"), _short(f"{agent_id}/{above}" if above else agent_id))
    return Claim(_short(agent_id), _parent(headers))


def _parent(headers: Headers) -> str | None:
    for name in _PARENTS:
        if headers.get(name):
            return _short(_unquoted(headers[name]))
    return None


def _short(agent_id: str) -> str:
    """The id; of one too long to keep and to show, or that UTF-8 cannot say, its digest: still nobody else's."""
    if len(agent_id) <= _LONGEST and not _SURROGATES.search(agent_id):
        return agent_id
    return "sha256:" + hashlib.sha256(agent_id.encode("utf-8", "surrogatepass")).hexdigest()


def _unquoted(value: str) -> str:
    """As a URL would call it: UTF-8, percent-decoded; bytes that are none stay apart from each other."""
    with contextlib.suppress(UnicodeError):
        value = value.encode("latin-1").decode()
    return unquote(value, errors="surrogateescape")


def _parse(source: str) -> tuple[str, str]:
    kind, _, name = source.partition(":")
    if source == PREFIX:
        return "", ""
    checks: dict[str, Callable[[str], object]] = {"header": _NAME.fullmatch, "body": lambda path: all(path.split("."))}
    if kind not in checks or not name or not checks[kind](name):
        raise ValueError(f"identity must be of header:NAME, body:FIELD and {PREFIX}, got {source!r:.80}")
    return kind, name.lower() if kind == "header" else name
