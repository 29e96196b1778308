"""What both lines of AgentScope share: one reply of one agent, known to the code that runs in it."""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

from concur_agents import BaseController
from concur_agents.adapters import AgentRun

__all__ = ["Reply", "lacking"]

_log = logging.getLogger("concur_agents.agentscope")
_current: contextvars.ContextVar[Reply | None] = contextvars.ContextVar("concur_agents_agentscope", default=None)


class Reply(AgentRun):
    """One reply of one agent of the framework.

    Entering it changes nothing in the caller's context: a reply may be an async generator, which shares its caller's.
    What belongs to the reply runs :meth:`inside` it.
    """

    def __init__(self, controller: BaseController, agent: object, agent_id: str) -> None:
        super().__init__(controller, agent_id, log=_log)
        self.controller: Final = controller
        """Who admits."""
        self._of: Final = agent
        self._outer = Reply.current()
        self.over = False
        """It has been left."""

    @property
    def outer(self) -> Reply | None:
        """The reply that it began in; those that are over are let go, so that no chain of them grows."""
        while self._outer is not None and self._outer.over:
            self._outer = self._outer._outer
        return self._outer

    @staticmethod
    def current() -> Reply | None:
        """The reply in whose context we are; what one started and left behind is in it no more."""
        reply = _current.get()
        return reply.outer if reply is not None and reply.over else reply

    @staticmethod
    def current_of(agent: object, controller: BaseController | None) -> Reply | None:
        """The innermost of this agent and under this controller."""
        reply = Reply.current()
        while reply is not None and (reply._of is not agent or reply.controller is not controller):
            reply = reply.outer
        return reply

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Have the body be part of the reply: agents that are called in it share its seat."""
        token = _current.set(self)
        try:
            with super().inside():
                yield
        finally:
            with contextlib.suppress(ValueError):  # thrown away by the collector, in a context of its own
                _current.reset(token)

    def __enter__(self) -> Self:
        contextvars.copy_context().run(super().__enter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.over = True
        super().__exit__(kind, error, traceback)


def lacking(model: object, headers: Mapping[str, str], *own: Mapping[str, str] | None) -> dict[str, str]:
    """Of these headers those the user does not send already, by the model's client or in ``own``.

    None at all for models whose client takes no headers: it is not one of OpenAI's or Anthropic's.
    """
    sent: Any = getattr(getattr(model, "client", None), "default_headers", None)
    if not isinstance(sent, Mapping):
        return {}
    users = {name.lower() for each in (sent, *own) for name in each or ()}
    return {name: value for name, value in headers.items() if name.lower() not in users}
