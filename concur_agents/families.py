"""Who belongs to whom: agents, their sub-agents, and the families that share a seat. Knows nothing of seats."""

from __future__ import annotations

from dataclasses import dataclass, field

from concur_agents.errors import UnknownAgentError

__all__ = ["Families", "Family", "Member"]


@dataclass(slots=True, eq=False)
class Family:
    """An agent and the sub-agents it started. The admission keeps its seat's state here."""

    root: str
    """The agent that started it."""
    age: int
    """Order of arrival; lower is older."""
    born: float = 0.0
    """When its first agent asked first; seconds on the caller's clock. Counts where families come in out of order."""
    members: int = 0
    generating: int = 0
    seated: bool = False
    fresh: bool = False
    """No generation has ended on its seat yet: taking the one that is running back gives the seat back too."""
    has_run: bool = False
    """One of its members has ended a generation: it is parked, not new, when it has no seat."""
    held: float = 0.0
    """Tokens that its members hold, as far as they are known."""
    tokens: float = 0.0
    """The same, or what a new one is taken to hold: what its seat costs."""
    idle_since: float = 0.0
    """When a generation of its members ended last; seconds on the caller's clock."""
    marked: bool = False
    """Seated above the window: parks at its next boundary."""
    waiting: dict[str, None] = field(default_factory=dict)
    """Members queued for the family's seat, in order."""


@dataclass(slots=True, eq=False)
class Member:
    """One agent."""

    family: Family
    parent: str | None = None
    children: set[str] | None = None
    generating: bool = False
    tokens: float = 0.0
    awaits: str | None = None
    """A parent that was named and is not known: it joins this family if it comes."""
    has_run: bool = False
    """Has ended a generation; until then taking its request back leaves no trace of it."""


class Families:
    """Every known agent, by id."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.count = 0
        """Families with at least one member."""
        self._arrivals = 0
        self._orphans: dict[str, dict[str, None]] = {}
        """Sub-agents that came before their parent, by the parent's id, in order."""

    def member(self, agent_id: str) -> Member:
        """A known agent.

        Raises:
            UnknownAgentError: it was never admitted, or has finished.
        """
        try:
            return self.members[agent_id]
        except KeyError:
            raise UnknownAgentError(f"agent {agent_id!r} was never admitted, or has finished") from None

    def arrive(self, agent_id: str, parent: str | None, now: float = 0.0) -> Member:
        """Take in a new agent: into its parent's family, into that of sub-agents that came before it, or its own."""
        above = self.members.get(parent) if parent is not None else None
        member = Member(above.family if above is not None else self._first_family(agent_id, now))
        member.family.born = min(member.family.born, now)
        if above is not None:
            member.parent = parent
            above.children = above.children or set()
            above.children.add(agent_id)
        else:
            # A parent may open a sub-agent before its own first step. It must not wait behind it then.
            self._adopt(agent_id, member)
            if parent is not None and parent != agent_id:
                member.awaits = parent
                self._orphans.setdefault(parent, {})[agent_id] = None
        member.family.members += 1
        self.members[agent_id] = member
        return member

    def forget(self, agent_id: str) -> None:
        """Let an agent go; its family ends with its last member."""
        member = self.members.pop(agent_id)
        above = self.members.get(member.parent) if member.parent is not None else None
        if above is not None and above.children:
            above.children.discard(agent_id)
        self._end_wait(agent_id, member)
        member.family.members -= 1
        if member.family.members == 0:
            self.count -= 1

    def renumber(self) -> None:
        """Have ages follow when families were born; of the same moment, those that came first are the older ones."""
        families = {member.family for member in self.members.values()}
        self._arrivals = len(families)
        for age, family in enumerate(sorted(families, key=lambda each: (each.born, each.age)), 1):
            family.age = age

    def descendants(self, agent_id: str) -> list[str]:
        """Sub-agents, deepest first. A list as stack: a chain of any depth is no recursion."""
        found, stack = [], [agent_id]
        while stack:
            for child in self.members[stack.pop()].children or ():
                found.append(child)
                stack.append(child)
        return found[::-1]

    def _first_family(self, agent_id: str, now: float) -> Family:
        orphan = next(iter(self._orphans.get(agent_id, ())), None)
        if orphan is not None:
            family = self.members[orphan].family
            if family.root == orphan:
                family.root = agent_id
            return family
        self._arrivals += 1
        self.count += 1
        return Family(root=agent_id, age=self._arrivals, born=now)

    def _adopt(self, agent_id: str, member: Member) -> None:
        """Take in those who waited for this parent and are in the family it joined; others have seats of their own."""
        waited = self._orphans.get(agent_id, {})
        own = [orphan for orphan in waited if self.members[orphan].family is member.family]
        for orphan in own:
            self.members[orphan].parent = agent_id
            self._end_wait(orphan, self.members[orphan])
        if own:
            member.children = set(own)

    def _end_wait(self, orphan: str, member: Member) -> None:
        """The orphan's wait for its parent is over, one way or the other."""
        if member.awaits is not None:
            others = self._orphans[member.awaits]
            del others[orphan]
            if not others:
                del self._orphans[member.awaits]
            member.awaits = None
