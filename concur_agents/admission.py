"""Who holds a seat: the synchronous state machine behind admit, pause and resume.

No clock, no asyncio, no I/O, no lock: the controller calls it under its own lock, the tests and the lab call it bare.
Every operation is O(1) for each agent it moves, but :meth:`Admission.set_window` when it shrinks sorts the seated.

Rules
    * A *family* (an agent and the sub-agents it started) shares one seat, so a sub-agent never waits behind its own
      ancestor, nor an ancestor that takes its first step late behind a sub-agent: nothing deadlocks at a window of 1.
    * Seats in use never exceed ``max(1, floor(window))``, except after a shrink, until every boundary was reached.
    * Parked agents queue before new ones; each queue is first in, first out.
    * A shrink takes seats at boundaries only: at once from agents in a tool, from generating ones when they pause.
      A generation is never interrupted.
    * **The youngest are parked** (by when their family first asked for a seat). The oldest have most context to lose
      and are nearest their end, where they free their seat for good; and the oldest seated agent is never parked, so
      somebody always gets on.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator

from concur_agents.families import Families, Family, Member
from concur_agents.samples import AgentState, Population

__all__ = ["Admission"]


class Admission:
    """Seats, queues and the window.

    Operations that free seats may grant them: :meth:`take_granted` then lists, in order, the agents that may go.

    Args:
        window: agents that may be seated; ``inf`` for no limit, below 1 counts as 1.

    Raises:
        ValueError: ``window`` is not a number.
    """

    def __init__(self, window: float = math.inf) -> None:
        self._families = Families()
        self._members = self._families.members
        self._seated: set[Family] = set()
        self._generating = 0
        # OrderedDict, not dict: taking the first of a dict skips over every entry deleted before it, which makes
        # draining a queue quadratic; an OrderedDict unlinks.
        self._marked: OrderedDict[Family, None] = OrderedDict()
        self._new: OrderedDict[Family, None] = OrderedDict()
        self._returning: OrderedDict[Family, None] = OrderedDict()
        self._granted: list[str] = []
        self._parked: list[str] = []
        self._window = math.inf
        self._limit = math.inf
        self.set_window(window)

    # --- the agents' side ---

    def request(self, agent_id: str, parent: str | None = None) -> bool:
        """Ask for the next generation; True when the agent may generate now, False when it was queued.

        An unknown agent is new: it joins ``parent``'s family where the parent is known, else it starts one. Asking
        again while generating or queued changes nothing.
        """
        member = self._members.get(agent_id)
        if member is None:
            member = self._families.arrive(agent_id, parent)
        family = member.family
        if member.generating:
            return True
        if not family.seated:
            if agent_id in family.waiting:
                return False
            if len(self._seated) >= self._limit:
                family.waiting[agent_id] = None
                (self._returning if family.has_run else self._new).setdefault(family)
                return False
            self._seat(family)
        self._begin(member)
        return True

    def pause(self, agent_id: str) -> bool:
        """The generation ended: the agent is at a boundary. It keeps its seat unless the window shrank below it.

        Returns False, and changes nothing, when it was not generating.

        Raises:
            UnknownAgentError: it was never admitted, or has finished.
        """
        member = self._families.member(agent_id)
        if not member.generating:
            return False
        member.has_run = member.family.has_run = True
        member.family.fresh = False
        self._end(member)
        return True

    def park(self, agent_id: str) -> bool:
        """Pause the agent and give its seat back, to ask for one again later. False when it held none.

        A seat that sub-agents or an ancestor of it are generating on stays with them.

        Raises:
            UnknownAgentError: it was never admitted, or has finished.
        """
        family = self._families.member(agent_id).family
        self.pause(agent_id)
        if not family.seated or family.generating:
            return False
        self._park(family)
        self._fill()
        return True

    def withdraw(self, agent_id: str) -> None:
        """Take a request back, queued or already granted, as if it had not been made. Unknown agents are ignored.

        A new agent is then forgotten, unless it has sub-agents: it stays known until it finishes.
        """
        member = self._members.get(agent_id)
        if member is None:
            return
        family = member.family
        if member.generating:
            if family.fresh and family.generating == 1:
                self._unseat(family)  # the grant came while its taker was leaving: back to where it was
            self._end(member)
        else:
            self._unqueue(agent_id, family)
        if not member.has_run and not member.children:
            self._forget(agent_id)
        self._fill()

    def finish(self, agent_id: str) -> tuple[str, ...]:
        """The agent ended, and with it all its sub-agents. Returns who ended, itself last; nobody when unknown."""
        member = self._members.get(agent_id)
        if member is None:
            return ()
        ended = [*self._families.descendants(agent_id), agent_id]
        for each in ended:
            self._leave(each)
        # A seat above the window went at this boundary, but nobody lives on without it.
        self._parked = [root for root in self._parked if root in self._members]
        self._fill()
        return tuple(ended)

    def was_granted(self, agent_id: str) -> bool:
        """Whether the agent may generate now."""
        member = self._members.get(agent_id)
        return member is not None and member.generating

    def take_granted(self) -> list[str]:
        """Agents whose queued request was granted since the last call, in order."""
        granted, self._granted = self._granted, []
        return granted

    def take_parked(self) -> list[str]:
        """Families (by their first agent) that lost their seat and live on, since the last call, in order."""
        parked, self._parked = self._parked, []
        return parked

    # --- the law's side ---

    @property
    def window(self) -> float:
        """The window in force."""
        return self._window

    def set_window(self, window: float) -> None:
        """Change the window. Growth seats who waits; a shrink parks the youngest at their boundaries.

        Raises:
            ValueError: ``window`` is not a number.
        """
        if math.isnan(window):
            raise ValueError(f"window must be a number of agents, got {window!r}")
        self._window = window
        self._limit = window if math.isinf(window) and window > 0 else max(1, math.floor(max(window, 1)))
        for family in self._marked:
            family.marked = False
        self._marked.clear()
        if len(self._seated) > self._limit:
            by_age = sorted(self._seated, key=lambda family: family.age)
            for family in by_age[int(self._limit) :]:
                if family.generating:
                    family.marked = True
                    self._marked[family] = None
                else:
                    self._take_seat(family)
                    self._parked.append(family.root)
        self._fill()

    def population(self) -> Population:
        """Counts of this moment, in families (each one seat)."""
        seated, waiting = len(self._seated), len(self._new) + len(self._returning)
        return Population(
            window=self._window,
            seated=seated,
            generating=self._generating,
            in_tool=seated - self._generating,
            parked=self._families.count - seated - waiting,
            waiting=waiting,
        )

    @property
    def over(self) -> int:
        """Seats held above the window: a shrink that has not reached every boundary yet."""
        return max(0, len(self._seated) - int(self._limit)) if math.isfinite(self._limit) else 0

    def state(self, agent_id: str) -> AgentState:
        """Where one agent is.

        Raises:
            UnknownAgentError: it was never admitted, or has finished.
        """
        member = self._families.member(agent_id)
        family = member.family
        if member.generating:
            return AgentState.GENERATING
        if agent_id in family.waiting:
            return AgentState.RETURNING if family.has_run else AgentState.WAITING
        return AgentState.IN_TOOL if family.seated else AgentState.PARKED

    def parent(self, agent_id: str) -> str | None:
        """The agent's parent, None for the first of a family.

        Raises:
            UnknownAgentError: it was never admitted, or has finished.
        """
        return self._families.member(agent_id).parent

    def __contains__(self, agent_id: str) -> bool:
        return agent_id in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    # --- inside ---

    def _begin(self, member: Member) -> None:
        member.generating = True
        member.family.generating += 1
        if member.family.generating == 1:
            self._generating += 1

    def _end(self, member: Member) -> None:
        """A generation ended; at the family's boundary a marked one parks."""
        family = member.family
        member.generating = False
        family.generating -= 1
        if family.generating == 0:
            self._generating -= 1
            if family.marked:
                self._park(family)
                self._fill()

    def _seat(self, family: Family) -> None:
        self._seated.add(family)
        family.seated = family.fresh = True

    def _take_seat(self, family: Family) -> None:
        self._seated.discard(family)
        family.seated = False

    def _park(self, family: Family) -> None:
        self._unseat(family)
        self._parked.append(family.root)

    def _unseat(self, family: Family) -> None:
        """Free a seat and keep exactly as many families marked as are seated above the window."""
        self._take_seat(family)
        if family.marked:
            del self._marked[family]
            family.marked = False
        elif self._marked:
            oldest, _ = self._marked.popitem(last=False)
            oldest.marked = False

    def _fill(self) -> None:
        while len(self._seated) < self._limit and (self._returning or self._new):
            family, _ = (self._returning or self._new).popitem(last=False)
            self._seat(family)
            for agent_id in family.waiting:
                self._begin(self._members[agent_id])
                self._granted.append(agent_id)
            family.waiting.clear()

    def _unqueue(self, agent_id: str, family: Family) -> None:
        family.waiting.pop(agent_id, None)
        if not family.waiting:
            self._new.pop(family, None)
            self._returning.pop(family, None)

    def _leave(self, agent_id: str) -> None:
        member = self._members[agent_id]
        family = member.family
        self._unqueue(agent_id, family)
        if member.generating:
            self._end(member)
        self._forget(agent_id)

    def _forget(self, agent_id: str) -> None:
        family = self._members[agent_id].family
        self._families.forget(agent_id)
        if family.members == 0 and family.seated:
            self._unseat(family)
