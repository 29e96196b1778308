"""A worker's connection to the shared controller: there, gone, or being made. Runs in the worker's background loop.

While it is gone, agents go on without control, and somebody knocks. A controller that takes connections and never
answers is as good as gone: whatever is asked has its time.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import itertools
import logging
import random
from collections.abc import Callable
from typing import Any, Final

from concur_agents.remote.awake import Awake
from concur_agents.remote.codec import answer_of, body_of
from concur_agents.remote.protocol import (
    Heartbeat,
    Kind,
    Leave,
    Operation,
    RefusedError,
    Register,
    Registered,
    Transport,
    UnreachableError,
    raise_refusal,
)

__all__ = ["GoneError", "Link", "Standing"]

_log = logging.getLogger("concur_agents.remote")

_FIRST_RETRY_S = 0.02
_LONGEST_RETRY_S = 0.5
_LONGEST_KNOCK_S = 5.0
# Of a lease: two may be lost.
_HEARTBEAT = 1 / 3
# Of the patience: so long may this process stand still before that is not counted.
_LOOK = 1 / 8


class Standing(enum.Enum):
    """Where the link is."""

    JOINING = enum.auto()
    """The controller is told who is there; whatever else is to be said waits for that."""
    UP = enum.auto()
    DOWN = enum.auto()
    """Agents go on without control."""


class GoneError(Exception):
    """The link went down, or was made anew, while something was asked: look at it again."""


class Link:
    """Says what is to be said, for as long as somebody listens.

    Args:
        transport: carries it.
        worker: our name.
        where: the controller's, for people.
        lease_s: seconds without a word after which we are taken to be gone; None as the controller likes.
        patience_s: seconds without an answer after which the controller is taken to be gone.
        snapshot: makes a registration of what we have, with a ``seq``.
        joined: called when the controller knows it, with its answer.
        broken: called when what was asked before is not answered any more: the link is going down, or joins.
    """

    def __init__(
        self,
        transport: Transport,
        worker: str,
        where: str,
        *,
        lease_s: float | None,
        patience_s: float,
        snapshot: Callable[[int], Register],
        joined: Callable[[Registered], None],
        broken: Callable[[], None],
    ) -> None:
        self.worker: Final = worker
        self.standing = Standing.JOINING
        self.problem: str | None = None
        """Why it is down."""
        self.closed = False
        self._transport = transport
        self._where = where
        self._lease_s = lease_s
        self._patience_s = patience_s
        self._snapshot, self._joined, self._broken = snapshot, joined, broken
        self._settled = asyncio.Event()
        """Not joining."""
        self._disturbed = asyncio.Event()
        """Not up any more."""
        self._numbers = itertools.count(1)
        self._awake = Awake(patience_s * _LOOK)

    def next_seq(self) -> int:
        """Of the next operation."""
        return next(self._numbers)

    async def settled(self) -> None:
        """Wait while it is being made: for the controller's patience at most."""
        if self.standing is Standing.JOINING:
            await self._settled.wait()

    async def run(self) -> None:
        """Keep it up until cancelled."""
        looking = asyncio.get_running_loop().create_task(self._awake.run())
        try:
            await self._keep()
        finally:
            looking.cancel()

    async def _keep(self) -> None:
        reason = await self._join()
        while True:
            if reason is None:
                await self._beat()
                if self.standing is Standing.JOINING:
                    reason = await self._join()
                    continue
            else:
                self.lose(reason)
            await self._knock()
            self._rejoin()
            reason = await self._join()

    async def say(self, operation: Operation, *, wait_s: float = 0.0) -> dict[str, Any]:
        """Say something while the link is up, again if need be, and return the answer.

        Args:
            operation: safe to be said twice.
            wait_s: seconds that the controller may take on purpose.

        Raises:
            GoneError: the link is not up (any more).
            RefusedError: the controller says no.
        """
        body = body_of(operation)
        clock = self._awake.now
        retry_s, began = _FIRST_RETRY_S, clock()
        while self.standing is Standing.UP:
            try:
                answer = await self._transport.call(operation.name, body, timeout_s=wait_s + self._patience_s)
                raise_refusal(answer)
                return answer
            except UnreachableError as error:
                # The time that it may take on purpose is none in which it failed.
                if clock() - began >= self._patience_s + (wait_s if retry_s == _FIRST_RETRY_S else 0):
                    self.lose(str(error))
                    break
                if retry_s == _FIRST_RETRY_S:
                    began = clock()
                await asyncio.sleep(retry_s * (0.5 + random.random()))
                retry_s = min(2 * retry_s, _LONGEST_RETRY_S)
            except RefusedError as refused:
                if refused.kind == Kind.UNKNOWN_WORKER:
                    self._rejoin()
                    break
                if refused.kind in (Kind.CLOSED, Kind.UNAUTHORIZED):
                    self.lose(str(refused))
                    break
                raise
        raise GoneError

    def lose(self, reason: str) -> None:
        """The controller is gone."""
        if self.standing is Standing.DOWN or self.closed:
            return
        self.standing, before = Standing.DOWN, self.problem
        self.problem = reason
        if before is None:
            _log.warning("the controller at %s cannot be asked (%s): agents go on without control", self._where, reason)
        self._disturbed.set()
        self._settled.set()
        self._broken()

    async def leave(self) -> None:
        """Tell that we go, if somebody listens."""
        self.closed = True
        if self.standing is Standing.UP:
            leave = Leave(worker=self.worker)
            with contextlib.suppress(UnreachableError):  # then our lease lapses
                await self._transport.call(leave.name, body_of(leave), timeout_s=self._patience_s)

    def _rejoin(self) -> None:
        if self.standing is not Standing.JOINING:
            self.standing = Standing.JOINING
            self._settled.clear()
            self._disturbed.set()
            self._broken()

    async def _join(self) -> str | None:
        """Register; why not, if it fails."""
        register = self._snapshot(self.next_seq())
        clock = self._awake.now
        retry_s, until = _FIRST_RETRY_S, clock() + self._patience_s
        while True:
            try:
                left = max(_FIRST_RETRY_S, until - clock())
                answer = answer_of(
                    Registered, _bare(await self._transport.call(register.name, body_of(register), timeout_s=left))
                )
            except RefusedError as refused:
                return str(refused)
            except UnreachableError as error:
                if clock() + retry_s >= until:
                    return str(error)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, _LONGEST_RETRY_S)
                continue
            self._lease_s = answer.lease_s
            self._joined(answer)
            if self.problem is not None:
                _log.warning("the controller at %s is back", self._where)
            self.problem = None
            self._disturbed.clear()
            self.standing = Standing.UP
            self._settled.set()
            return None

    async def _beat(self) -> None:
        """Heartbeats until the link is not up any more."""
        while self.standing is Standing.UP:
            pause = asyncio.get_running_loop().create_task(self._disturbed.wait())
            done, _ = await asyncio.wait((pause,), timeout=(self._lease_s or 1.0) * _HEARTBEAT)
            if done:
                return
            pause.cancel()
            try:
                await self.say(Heartbeat(worker=self.worker))
            except RefusedError as refused:
                self.lose(str(refused))
            except GoneError:
                return

    async def _knock(self) -> None:
        """Until somebody answers. Agents do not wait for this."""
        wait_s = _FIRST_RETRY_S
        while True:
            await asyncio.sleep(wait_s * (0.5 + random.random() / 2))
            wait_s = min(2 * wait_s, _LONGEST_KNOCK_S)
            knock = Heartbeat(worker=self.worker)
            try:
                answer = await self._transport.call(knock.name, body_of(knock), timeout_s=self._patience_s)
                raise_refusal(answer)
            except UnreachableError:
                continue
            except RefusedError as refused:
                if refused.kind != Kind.UNKNOWN_WORKER:
                    self.problem = str(refused)
                    continue
            return


def _bare(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "controller"}
