"""A controller elsewhere, with the interface of one in this process."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Final, Self
from urllib.parse import urlsplit

from concur_agents.agents import SESSION_HEADER
from concur_agents.base import RunningController
from concur_agents.errors import LifecycleError
from concur_agents.events import EventStream
from concur_agents.remote.protocol import ReadHistory, ReadStats, Transport
from concur_agents.remote.seats import RemoteSeats
from concur_agents.remote.values import from_json
from concur_agents.samples import Stats, WindowChange

__all__ = ["TOKEN_VARIABLE", "RemoteController", "checked_url"]

TOKEN_VARIABLE: Final = "CONCUR_TOKEN"  # noqa: S105 - a variable's name
"""Environment variable that holds the token."""


class RemoteController(RunningController):
    """A controller that serves many processes, as one of them sees it. Make it with ``Controller.connect``.

    Agents, steps, primitives, decorators and wrapped clients are those of a ``Controller``. What is different:

    * Nothing here waits for the controller but a step's entry (``admit``, ``resume``), and what is seen of it
      (``agents``, ``view``, ``stats``, ``history``), which blocks the calling thread. A boundary is told in the
      background, before the same agent's next request.
    * ``pause``, ``park`` and ``finish`` return what this process knows.
    * While the controller is gone, agents go on without control; that is said once, and when it is back.
    * Where it has several engines, each agent is on the one that the controller says, as :meth:`engine` does.
    * A name that another process has given to a running agent is ``<name>~<8 hex digits>`` at the controller.
    * A forked child is another worker, without agents.

    Args:
        transport: makes what carries operations to the controller; called once in each process, in its event loop.
        where: the controller's name, for people.
        lease_s: seconds without a word after which the controller takes this process to be gone; None as it likes.
        patience_s: seconds without an answer after which the controller is taken to be gone. > 0.
        session_header: HTTP header that names an agent to the engine; None for none.

    Raises:
        ValueError: a parameter is out of range; names it and its value.
    """

    def __init__(
        self,
        transport: Callable[[], Transport],
        where: str,
        *,
        lease_s: float | None = None,
        patience_s: float = 5.0,
        session_header: str | None = SESSION_HEADER,
    ) -> None:
        for name, value in (("lease_s", lease_s), ("patience_s", patience_s)):
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be a finite number of seconds above 0, got {value!r}")
        self.where: Final = where
        """The controller's name."""
        self._remote: Final = RemoteSeats(transport, where, lease_s=lease_s, patience_s=patience_s)
        self._started = False
        super().__init__(self._remote, session_header)

    @classmethod
    def at(
        cls,
        url: str,
        *,
        token: str | None = None,
        lease_s: float | None = None,
        patience_s: float = 5.0,
        session_header: str | None = SESSION_HEADER,
    ) -> Self:
        """See ``Controller.connect``."""
        from concur_agents.remote.http import HttpTransport  # an extra's; other transports do without

        base = checked_url(url)
        secret = token if token is not None else os.environ.get(TOKEN_VARIABLE) or None
        if secret is not None and not (secret.isascii() and secret.isprintable() and " " not in secret and secret):
            raise ValueError("token must be visible ASCII characters without spaces (not shown)")
        return cls(
            lambda: HttpTransport(base, secret),
            base,
            lease_s=lease_s,
            patience_s=patience_s,
            session_header=session_header,
        )

    # --- engines ---

    @property
    def all_engines(self) -> tuple[str, ...]:
        """The engines' addresses, where the controller has several and has said so; :meth:`start` waits for nothing."""
        return self._remote.all_engines

    @property
    def may_have_several(self) -> bool:
        """False once the controller has said that it has one."""
        return self._remote.may_have_several

    # --- seeing ---

    def stats(self) -> Stats:
        """This moment, at the controller; of several engines, all together.

        Raises:
            UnreachableError: it does not answer.
        """
        return from_json(Stats, self._remote.ask(ReadStats()))

    def stats_of(self, engine: str) -> Stats:
        """This moment, at one of several engines.

        Raises:
            UnreachableError: the controller does not answer.
            RefusedError: there is no such engine.
        """
        return from_json(Stats, self._remote.ask(ReadStats(engine=engine)))

    def history(self, engine: str | None = None) -> tuple[WindowChange, ...]:
        """The last changes of the window, oldest first; of several engines, of one or of all.

        Raises:
            UnreachableError: the controller does not answer.
            RefusedError: there is no such engine.
        """
        answer = self._remote.ask(ReadHistory(engine=engine))
        return tuple(from_json(WindowChange, each) for each in answer["history"])

    def events(self, *, size: int = 10_000) -> EventStream:
        """A stream of everything that happens at the controller from now on, for ``async for`` or ``for``.

        Blocks until the controller knows that somebody listens; if it is gone, what happens once it is back is told.
        When it goes or comes, that is a problem event. It ends when this controller is closed.

        Args:
            size: events kept for a reader that is slower than they come; beyond it the oldest are dropped. >= 1.

        Raises:
            ValueError: ``size`` is out of range.
        """
        if size < 1:
            raise ValueError(f"size must be a whole number >= 1, got {size!r}")
        return self._remote.events(size)

    def flush(self) -> None:
        """Block until the controller knows everything that was said so far, or is gone."""
        self._remote.flush()

    # --- running ---

    def start(self) -> Self:
        """Begin to look for the controller. Once; the first agent does it else.

        Raises:
            LifecycleError: it was started before.
        """
        if self._started or self.closed:
            raise LifecycleError("this controller was started before: make another one")
        self._started = True
        self._remote.start()
        return self

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._remote.closed

    def close(self, *, timeout: float | None = None) -> None:
        """Leave: whoever waits for a seat gets ControllerClosedError, this process's agents end as cancelled.

        Idempotent.

        Args:
            timeout: seconds to tell the controller, at most. >= 0.
        """
        self._remote.close(timeout)


def checked_url(url: str) -> str:
    """The base address, without a trailing slash.

    Raises:
        ValueError: it is none; shows nothing of it that may be secret.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"url must start with http:// or https://, got {url!r:.80}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("url must not hold a user or a password (not shown): use token")
    if not parts.hostname or parts.query or parts.fragment or parts.path.strip("/"):
        raise ValueError(f"url must be a controller's address like http://127.0.0.1:8400, got {url!r:.80}")
    try:
        parts.port  # noqa: B018 - it is checked when it is read
    except ValueError as error:
        raise ValueError(f"url has no good port: {url!r:.80}") from error
    return f"{parts.scheme}://{parts.netloc}"
