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
    * **The oldest goes first** (by when its family first asked for a seat): whoever waits, waits for older ones only.
    * A shrink takes seats at boundaries only: at once from agents in a tool, from generating ones when they pause.
      A generation is never interrupted.
    * **The young are parked**: the youngest, or one of the younger half that is in a tool, since that frees its room at
      once and not when its generation ends. The oldest have most context to lose and are nearest their end, where they
      free their seat for good; and the oldest seated agent is never parked, so somebody always gets on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from concur_agents.aging import ByAge
from concur_agents.families import Families, Family, Member
from concur_agents.samples import NO_GROWTH, AgentState, Growth, Population

__all__ = ["Admission", "Restored"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """An agent that has lived elsewhere until now: under a controller that is gone, or without any."""

    agent_id: str
    parent: str | None = None
    state: AgentState = AgentState.PARKED
    """Who generates or is in a tool has a seat."""
    born: float = 0.0
    """When it asked first; seconds on the clock of the other calls."""
    has_run: bool = True
    tokens: float = 0.0
    """That it holds."""


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
        self._waiting = ByAge()
        self._keeping, self._eldest = ByAge(youngest=True), ByAge()
        """Seated and not marked, from both ends."""
        self._idle = ByAge(youngest=True)
        """Of these, who is in a tool."""
        self._marked = ByAge()
        """The oldest is the first to be spared."""
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

    def request(self, agent_id: str, parent: str | None = None, now: float = 0.0) -> bool:
        """Ask for the next generation; True when the agent may generate now, False when it was queued.

        An unknown agent is new: it joins ``parent``'s family where the parent is known, else it starts one. Asking
        again while generating or queued changes nothing.

        Args:
            agent_id: who.
            parent: whose sub-agent it is.
            now: seconds on any clock, for :meth:`restore`.
        """
        member = self._members.get(agent_id)
        if member is None:
            member = self._families.arrive(agent_id, parent, now)
        family = member.family
        if member.generating:
            return True
        if not family.seated:
            if agent_id in family.waiting:
                return False
            before = self._waiting.first()
            if (before is not None and before.age < family.age) or not self._takes(family):
                family.waiting[agent_id] = None
                self._waiting.add(family)
                return False
            self._seat(family)
        self._begin(member)
        return True

    def pause(self, agent_id: str, now: float = 0.0) -> bool:
        """The generation ended: the agent is at a boundary. It keeps its seat unless the window shrank below it.

        Args:
            agent_id: whose.
            now: seconds on any clock, for :meth:`give_up_idle`.

        Returns False, and changes nothing, when it was not generating.

        Raises:
            UnknownAgentError: it was never admitted, or has finished.
        """
        member = self._families.member(agent_id)
        if not member.generating:
            return False
        member.has_run = member.family.has_run = True
        member.family.fresh = False
        self._end(member, now)
        return True

    def park(self, agent_id: str, now: float = 0.0) -> bool:
        """Pause the agent and give its seat back, to ask for one again later. False when it held none.

        A seat that sub-agents or an ancestor of it are generating on stays with them.

        Args:
            agent_id: whose.
            now: as for :meth:`pause`.

        Raises:
            UnknownAgentError: it was never admitted, or has finished.
        """
        family = self._families.member(agent_id).family
        self.pause(agent_id, now)
        if not family.seated or family.generating:
            return False
        self._park(family)
        self._fill()
        return True

    def withdraw(self, agent_id: str, *, keep: bool = False) -> None:
        """Take a request back, queued or already granted, as if it had not been made. Unknown agents are ignored.

        A new agent is then forgotten, unless it has sub-agents: it stays known until it finishes.

        Args:
            agent_id: whose.
            keep: a new agent stays known, and so keeps its age: it will ask again.
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
        if not keep and not member.has_run and not member.children:
            self._forget(agent_id)
        self._fill()

    def finish(self, agent_id: str, now: float = 0.0) -> tuple[str, ...]:
        """The agent ended, and with it all its sub-agents. Returns who ended, itself last; nobody when unknown.

        Args:
            agent_id: who.
            now: as for :meth:`pause`, for those who live on on the same seat.
        """
        member = self._members.get(agent_id)
        if member is None:
            return ()
        ended = [*self._families.descendants(agent_id), agent_id]
        for each in ended:
            self._leave(each, now)
        # A seat above the window went at this boundary, but nobody lives on without it.
        self._parked = [root for root in self._parked if root in self._members]
        self._fill()
        return tuple(ended)

    def restore(self, agents: Iterable[Restored]) -> None:
        """Take in agents that have lived elsewhere, by their age; those that generate go on, even above the window.

        Who is above the window then gives its seat back as after a shrink. A known agent is taken to be in the state
        that is said, unless it generates here: then pause it before.
        """
        missing = {each.agent_id: each for each in agents}
        for agent_id in tuple(missing):
            above = {agent_id: None}  # parents before their sub-agents; in order, as a stack
            while above:
                last = next(reversed(above))
                parent = missing[last].parent if last in missing else None
                if parent is not None and parent in missing and parent not in above:
                    above[parent] = None
                    continue
                del above[last]
                if last in missing:
                    self._restore(missing.pop(last))
        self._families.renumber()
        for families in (self._waiting, self._keeping, self._eldest, self._idle, self._marked):
            families.reorder()
        self._balance()

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
            growth: what agents are going to grow by; a seat is granted only if that fits too, and kept only if a step's
                fits: who is parked leaves at its boundary, and the others grow meanwhile.

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
        if tokens != self._first:
            self._first = tokens
            self._fill()

    def weigh(self, agent_id: str, tokens: float) -> None:
        """The agent holds so many tokens now. Unknown agents are ignored."""
        member = self._members.get(agent_id)
        if member is not None and (tokens != member.tokens or member.family.tokens != member.family.held):
            self._weigh(member, tokens)
            self._balance()

    def give_up_idle(self, since: float) -> None:
        """Families in tools since before that lose their seats to those who wait, the longest idle first."""
        if not self._waiting:
            return
        idle = [family for family in self._seated if not family.generating and family.idle_since < since]
        for family in sorted(idle, key=lambda each: (each.idle_since, each.age)):
            if not self._waiting:
                return
            self._park(family)
            self._fill()

    def population(self) -> Population:
        """Counts of this moment, in families (each one seat)."""
        seated, waiting = len(self._seated), len(self._waiting)
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
        return len(self._marked)

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

    def has_sub_agents(self, agent_id: str) -> bool:
        """Whether sub-agents of the agent are known; False when it is not known itself."""
        member = self._members.get(agent_id)
        return member is not None and bool(member.children)

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

    def _restore(self, each: Restored) -> None:
        member = self._members.get(each.agent_id)
        if member is None:
            member = self._families.arrive(each.agent_id, each.parent, each.born)
        family = member.family
        family.born = min(family.born, each.born)
        member.has_run |= each.has_run
        family.has_run |= each.has_run
        if each.tokens:
            self._weigh(member, each.tokens)
        generates = each.state is AgentState.GENERATING
        if not family.seated and (generates or each.state is AgentState.IN_TOOL):
            self._seat_waiting(family)
            family.fresh = not family.has_run
        if generates and not member.generating:
            self._begin(member)

    def _seat_waiting(self, family: Family) -> None:
        """Give the family a seat, and let those go on that wait for it."""
        self._waiting.discard(family)
        self._seat(family)
        for agent_id in family.waiting:
            self._begin(self._members[agent_id])
            self._granted.append(agent_id)
        family.waiting.clear()

    def _begin(self, member: Member) -> None:
        member.generating = True
        member.family.generating += 1
        if member.family.generating == 1:
            self._generating += 1
            self._idle.discard(member.family)

    def _end(self, member: Member, now: float | None = None) -> None:
        """A generation ended, or never began; at the family's boundary a marked one parks."""
        family = member.family
        if now is not None:
            family.idle_since = now
        member.generating = False
        family.generating -= 1
        if family.generating == 0:
            self._generating -= 1
            if family.marked:
                self._park(family)
                self._fill()
            elif family.seated:
                self._idle.add(family)

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
        self._keeping.add(family)
        self._eldest.add(family)
        if not family.generating:
            self._idle.add(family)

    def _keep_no_more(self, family: Family) -> None:
        self._kept -= family.tokens
        for families in (self._keeping, self._eldest, self._idle):
            families.discard(family)

    def _unseat(self, family: Family) -> None:
        self._seated.discard(family)
        family.seated = False
        self._held -= family.tokens
        if family.marked:
            family.marked = False
            self._marked.discard(family)
        else:
            self._keep_no_more(family)
        if not self._seated:
            self._held = self._kept = 0.0  # sums of fractions drift

    def _park(self, family: Family) -> None:
        self._unseat(family)
        self._parked.append(family.root)

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
        """Take seats from the young until the rest are within the window and the budget; else seat who waits."""
        while len(self._keeping) > 1 and not self._room(len(self._keeping), self._kept):
            family = self._next_to_lose()
            if family.generating:
                self._mark(family)
            else:
                self._park(family)
        self._fill()

    def _next_to_lose(self) -> Family:
        """The youngest that is in a tool, if it is of the younger half by age; else the youngest."""
        youngest, eldest, idle = self._keeping.first(), self._eldest.first(), self._idle.first()
        assert youngest is not None  # noqa: S101 - for the type checker: more than one keeps its seat
        assert eldest is not None  # noqa: S101 - the same
        return idle if idle is not None and 2 * idle.age > youngest.age + eldest.age else youngest

    def _mark(self, family: Family) -> None:
        """It parks at its boundary."""
        self._keep_no_more(family)
        family.marked = True
        self._marked.add(family)

    def _unmark(self) -> None:
        """Who was marked to make room, and need not be any more, keeps its seat; one always does."""
        while (family := self._marked.first()) is not None:
            if self._keeping and not self._room(len(self._keeping) + 1, self._kept + family.tokens):
                return
            self._marked.discard(family)
            family.marked = False
            self._keep(family)

    def _room(self, seats: int, tokens: float) -> bool:
        return seats <= self._limit and tokens <= self._tokens - self._growth.step

    def _takes(self, family: Family) -> bool:
        """Whether there is a seat for one more: with all that is held, and is going to be."""
        seats = len(self._seated) + 1
        held = self._held + (family.tokens if family.has_run or family.held else self._first)
        growth = self._growth.seated + (self._seated_since + 1) * self._growth.each
        return seats == 1 or self._room(seats, held + growth)

    def _fill(self) -> None:
        """There may be room: first for those who have a seat and would lose it, then for those who wait."""
        self._unmark()
        while (family := self._waiting.first()) is not None and self._takes(family):
            self._seat_waiting(family)

    def _unqueue(self, agent_id: str, family: Family) -> None:
        family.waiting.pop(agent_id, None)
        if not family.waiting:
            self._waiting.discard(family)

    def _leave(self, agent_id: str, now: float) -> None:
        member = self._members[agent_id]
        family = member.family
        self._unqueue(agent_id, family)
        if member.generating:
            self._end(member, now)
        self._forget(agent_id)

    def _forget(self, agent_id: str) -> None:
        member = self._members[agent_id]
        family = member.family
        if member.tokens:
            self._weigh(member, 0.0)
        self._families.forget(agent_id)
        if family.members == 0 and family.seated:
            self._unseat(family)
