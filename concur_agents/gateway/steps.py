"""One agent's request in flight."""

from __future__ import annotations

from concur_agents.adapters import ModelCall
from concur_agents.gateway.replies import ReplyWatch
from concur_agents.gateway.roster import Member, Roster

__all__ = ["AgentStep"]


class AgentStep:
    """Over once, and before its client can know.

    Args:
        roster: who is told.
        member: whose request it is; in flight already.
    """

    def __init__(self, roster: Roster, member: Member) -> None:
        self._roster = roster
        self._member = member
        self._over = False
        self.answered = False
        """Whether the engine's reply went through, and was no error."""
        self.call: ModelCall | None = None

    def over(self, watch: ReplyWatch | None) -> None:
        """The reply is there, as ``watch`` saw it; None: there is none, or not all of it. Idempotent."""
        if self._over:
            return
        self._over = True
        if watch is not None:
            watch.end()
        if self.call is not None:
            if watch is not None:
                self.call.observe(watch.usage)
            self.call.end()
        if watch is None:
            self._roster.close(self._member, answered=False)
        else:
            self.answered = not watch.failed
            self._member.calls_tools |= watch.calls_tools
            # Who calls its tools by text ends every reply like this, and so does one half of a talk.
            looks_done = watch.ends_turn and self._member.calls_tools and not self._member.goes_on
            done = watch.ends_task or looks_done
            self._roster.close(self._member, answered=self.answered, said=watch.said, done=done)
