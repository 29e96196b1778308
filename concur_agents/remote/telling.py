"""How the controller is told something, and asked for a seat, whatever state the link is in."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from concur_agents.remote.codec import answer_of
from concur_agents.remote.link import GoneError, Link, Standing
from concur_agents.remote.lives import Life, Word
from concur_agents.remote.protocol import (
    Admit,
    Answer,
    Finish,
    Kind,
    OfAgent,
    RefusedError,
    Resume,
    UnreachableError,
)

if TYPE_CHECKING:
    from concur_agents.remote.own import OwnAgents

__all__ = ["Telling"]

_log = logging.getLogger("concur_agents.remote")

# One question for a seat waits so long at the controller, and is then asked again.
_POLL_S = 20.0
# Times that a question is asked in another way before the agent goes on without control.
_OTHER_WAYS = 3


class Telling:
    """Says one word after the other.

    Args:
        own: whose agents they are about.
        link: to the controller.
    """

    def __init__(self, own: OwnAgents, link: Link) -> None:
        self._own = own
        self._link = link
        self._said: set[str] = set()

    async def say(self, word: Word) -> None:
        """Until it is said, or does not matter any more. Never raises Exception."""
        try:
            if word.message is not None:
                await self._tell(word.message)
            elif word.life is not None:
                await self._ask(word.life)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not stop an agent
            self._warn("bug", "Concur failed to tell the controller something", error)
            if word.message is None and word.life is not None:
                self._own.granted(word.life, known=False)

    async def _tell(self, message: OfAgent) -> None:
        """Something that is no question."""
        link = self._link
        while True:
            await link.settled()
            if link.standing is Standing.DOWN:
                if isinstance(message, Finish):
                    self._own.ending_lost(message)
                return
            try:
                await link.say(message)
            except GoneError:
                continue
            except RefusedError as refused:
                if refused.kind not in (Kind.UNKNOWN_AGENT, Kind.TAKEN):
                    self._warn(refused.kind, f"the controller refused to {message.name}: {refused}")
            return

    async def _ask(self, life: Life) -> None:
        """Until the seat is granted, or nobody waits for it any more."""
        link, other_ways, asked = self._link, 0, False
        while life.waiting:
            await link.settled()
            await self._own.engines.told()
            if not life.waiting:
                break
            if link.standing is Standing.DOWN or other_ways > _OTHER_WAYS:
                self._own.granted(life, known=False)
                return
            life.seq = seq = link.next_seq() if life.seq is None else life.seq
            asked = life.asked = True
            try:
                answer = await self._answered(life, seq)
            except RefusedError as refused:
                other_ways += 1
                if self._refused(life, refused):
                    return
                continue
            if answer is None or life.seq != seq:
                continue  # nobody waits any more, or the link was made anew: that question is void
            life.known = True
            if answer.granted and life.waiting:
                life.engine = answer.engine
                self._own.granted(life, known=True)
                return
            if not answer.granted and answer.state is None:
                life.seq, other_ways = None, other_ways + 1  # it was finished there
        withdraw = self._own.given_up(life, asked=asked)
        if withdraw is not None:
            await self._tell(withdraw)

    async def _answered(self, life: Life, seq: int) -> Answer | None:
        """The answer to the question; None when it was cancelled, or the link went down."""
        call = asyncio.get_running_loop().create_task(self._question(life, seq))
        life.call = call
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            if not call.cancelled():  # it is us who are to end
                call.cancel()
                raise
            return None
        except GoneError:
            return None
        finally:
            life.call = None

    async def _question(self, life: Life, seq: int) -> Answer:
        shared: dict[str, Any] = {"agent": life.name, "worker": self._link.worker, "seq": seq, "wait_s": _POLL_S}
        if life.known:
            question: OfAgent = Resume(**shared)
        else:
            age_s = time.monotonic() - life.born if life.elsewhere else 0.0
            question = Admit(**shared, parent=self._own.name_of(life.parent), age_s=age_s)
        answer = await self._link.say(question, wait_s=_POLL_S)
        del answer["controller"]
        try:
            return answer_of(Answer, answer)
        except UnreachableError as error:
            self._link.lose(str(error))
            raise GoneError from None

    def _refused(self, life: Life, refused: RefusedError) -> bool:
        """Ask in another way. Or let the agent go on without control, or end the wait: then True."""
        life.seq = None
        if refused.kind == Kind.TAKEN:
            life.rename()
        elif refused.kind == Kind.UNKNOWN_AGENT:
            life.known = False
        elif refused.kind == Kind.LIFECYCLE:
            life.known = not life.known
        elif refused.kind == Kind.FINISHED:
            life.asking = False
            self._own.failed(life, refused.as_lifecycle_error())
            return True
        else:
            self._warn(refused.kind, f"the controller refused a seat: {refused}; agents go on without one")
            self._own.granted(life, known=False)
            return True
        return False

    def _warn(self, kind: str, message: str, error: Exception | None = None) -> None:
        _log.log(logging.DEBUG if kind in self._said else logging.WARNING, message, exc_info=error)
        self._said.add(kind)
