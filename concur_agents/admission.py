"""Who holds a seat: the synchronous state machine behind admit, pause and resume.

No clock, no asyncio, no I/O, no lock: the controller calls it under its own lock, the tests and the lab call it bare.
Every operation is O(log n) for each agent it moves.

Rules
    * A *family* (an agent and the sub-agents it started) shares one seat, so a sub-agent never waits behind its own
      ancestor, nor an ancestor that takes its first step late behind a sub-agent: nothing deadlocks at a window of 1.
    * Seats in use never exceed ``max(1, floor(window))``, nor what they hold the token budget, except after a shrink
      or when what they hold has grown, until every boundary was reached. One seat is always granted.
    * A seat is granted only if the budget holds what all seated hold, and what they are going to grow by
      (``Growth``). So an agent that was parked for want of room does not come back into the same shortage.
    * Parked agents queue before new ones; each queue is first in, first out.
    * A shrink takes seats at boundaries only: at once from agents in a tool, from generating ones when they pause.
      A generation is never interrupted.
    * **The youngest are parked** (by when their family first asked for a seat). The oldest have most context to lose
      and are nearest their end, where they free their seat for good; and the oldest seated agent is never parked, so
      somebody always gets on.
"""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from collections.abc import Iterator

from concur_agents.families import Families, Family, Member
from concur_agents.samples import NO_GROWTH, AgentState, Growth, Population

__all__ = ["Admission"]

# Heaps keep entries that are stale by now until there are so many for each that is not: made anew that seldom, they
# cost no more than O(log n) an operation, and hold no agent that is gone for long.
_STALE, _FEW = 2, 64


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
        self._held = 0.0
        """Tokens of all seated families; ``_kept`` of those that are not marked."""
        self._kept = 0.0
        self._generating = 0
        # OrderedDict, not dict: taking the first of a dict skips over every entry deleted before it, which makes
        # draining a queue quadratic; an OrderedDict unlinks.
        self._new: OrderedDict[Family, None] = OrderedDict()
        self._returning: OrderedDict[Family, None] = OrderedDict()
        # Heaps by age, with stale entries: the youngest that keeps its seat is the first to lose it, the oldest that is
        # marked the first to be spared.
        self._youngest: list[tuple[int, Family]] = []
        self._oldest_marked: list[tuple[int, Family]] = []
        self._marks = 0
        self._granted: list[str] = []
        self._parked: list[str] = []
        self._window = math.inf
        self._limit = math.inf
        self._tokens = math.inf
        self._growth = NO_GROWTH
        self._seated_since = 0
        """Seats granted since the growth was said."""
        self._first = 0.0
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
            behind = self._returning or (self._new and not family.has_run)
            if behind or not self._takes(family):
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

    @property
    def tokens(self) -> float:
        """The token budget in force."""
        return self._tokens

    def set_window(self, window: float, *, tokens: float = math.inf, growth: Growth = NO_GROWTH) -> None:
        """Change how much may be seated. Growth seats who waits; a shrink parks the youngest at their boundaries.

        Args:
            window: agents; ``inf`` for no limit, below 1 counts as 1.
            tokens: that all seated agents may hold together; ``inf`` for no limit.
            growth: what agents are going to grow by; a seat is granted only if that fits too.

        Raises:
            ValueError: one of them is not a number.
        """
        for name, unit, value in (("window", "agents", window), ("tokens", "tokens", tokens)):
            if math.isnan(value):
                raise ValueError(f"{name} must be a number of {unit}, got {value!r}")
        self._window, self._tokens, self._growth, self._seated_since = window, tokens, growth, 0
        self._limit = window if math.isinf(window) and window > 0 else max(1, math.floor(max(window, 1)))
        self._balance()

    def expect(self, tokens: float) -> None:
        """What a new agent is taken to hold until its first step has ended."""
        self._first = tokens

    def weigh(self, agent_id: str, tokens: float) -> None:
        """The agent holds so many tokens now. Unknown agents are ignored."""
        member = self._members.get(agent_id)
        if member is not None and (tokens != member.tokens or member.family.tokens != member.family.held):
            self._weigh(member, tokens)
            self._balance()

    def population(self) -> Population:
        """Counts of this moment, in families (each one seat)."""
        seated, waiting = len(self._seated), len(self._new) + len(self._returning)
        return Population(
            window=self._window,
            tokens=self._tokens,
            held=self._held,
            seated=seated,
            generating=self._generating,
            in_tool=seated - self._generating,
            parked=self._families.count - seated - waiting,
            waiting=waiting,
        )

    def held_by_seated(self) -> list[float]:
        """Tokens of each seated family."""
        return [family.tokens for family in self._seated]

    @property
    def over(self) -> int:
        """Seats held above the window or the budget: a shrink that has not reached every boundary yet."""
        return self._marks

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
        if not family.has_run and not family.held:
            family.tokens = self._first
        self._held += family.tokens
        self._seated_since += 1
        self._keep(family)

    def _keep(self, family: Family) -> None:
        """A seated family is within the window and the budget."""
        self._kept += family.tokens
        heapq.heappush(self._youngest, (-family.age, family))
        if len(self._youngest) > _STALE * len(self._seated) + _FEW:
            self._youngest = [(-each.age, each) for each in self._seated if not each.marked]
            heapq.heapify(self._youngest)

    def _take_seat(self, family: Family) -> None:
        self._seated.discard(family)
        family.seated = False
        self._held -= family.tokens
        if family.marked:
            family.marked = False
            self._marks -= 1
        else:
            self._kept -= family.tokens
        if not self._seated:
            self._held = self._kept = 0.0  # sums of fractions drift

    def _park(self, family: Family) -> None:
        self._unseat(family)
        self._parked.append(family.root)

    def _unseat(self, family: Family) -> None:
        """Free a seat; families that were marked to make room, and need not any more, keep theirs."""
        self._take_seat(family)
        self._unmark()

    def _weigh(self, member: Member, tokens: float) -> None:
        family = member.family
        before = family.tokens
        family.held += tokens - member.tokens
        family.tokens = family.held
        member.tokens = tokens
        if family.seated:
            self._held += family.tokens - before
            if not family.marked:
                self._kept += family.tokens - before

    def _balance(self) -> None:
        """Take seats from the youngest until the rest are within the window and the budget; else seat who waits."""
        while (keeping := len(self._seated) - self._marks) > 1 and not self._room(keeping, self._kept):
            family = self._pop_youngest()
            if family.generating:
                self._mark(family)
            else:
                self._take_seat(family)
                self._parked.append(family.root)
        self._unmark()
        self._fill()

    def _mark(self, family: Family) -> None:
        """It parks at its boundary."""
        family.marked = True
        self._marks += 1
        self._kept -= family.tokens
        heapq.heappush(self._oldest_marked, (family.age, family))
        if len(self._oldest_marked) > _STALE * self._marks + _FEW:
            self._oldest_marked = [(each.age, each) for each in self._seated if each.marked]
            heapq.heapify(self._oldest_marked)

    def _unmark(self) -> None:
        while self._marks:
            _, family = self._oldest_marked[0]
            if not family.marked:
                heapq.heappop(self._oldest_marked)
                continue
            if not self._room(len(self._seated) - self._marks + 1, self._kept + family.tokens):
                return
            heapq.heappop(self._oldest_marked)
            family.marked = False
            self._marks -= 1
            self._keep(family)

    def _pop_youngest(self) -> Family:
        while True:
            _, family = heapq.heappop(self._youngest)
            if family.seated and not family.marked:
                return family

    def _room(self, seats: int, tokens: float) -> bool:
        return seats <= self._limit and tokens <= self._tokens

    def _takes(self, family: Family) -> bool:
        """Whether there is a seat for one more: with all that is held, and is going to be."""
        seats = len(self._seated) + 1
        held = self._held + (family.tokens if family.has_run or family.held else self._first)
        growth = self._growth.seated + (self._seated_since + 1) * self._growth.each
        return seats == 1 or self._room(seats, held + growth)

    def _fill(self) -> None:
        while queue := (self._returning or self._new):
            family = next(iter(queue))
            if not self._takes(family):
                return
            del queue[family]
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
        member = self._members[agent_id]
        family = member.family
        if member.tokens:
            self._weigh(member, 0.0)
        self._families.forget(agent_id)
        if family.members == 0 and family.seated:
            self._unseat(family)
