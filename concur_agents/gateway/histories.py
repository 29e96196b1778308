"""Which agent a conversation is, when nobody says: the one whose last request it goes on from.

Agents append to their conversation. So the next request of an agent begins with all that its last one said. Where
several agents stand at the same point (a group of rollouts of one prompt), what the model answered to each tells them
apart; as long as nothing does, their contexts are the same, and so is whichever is taken. Two agents are never one:

* an agent with a request in flight is not matched: a request beside it is another agent's;
* a request that says exactly what an answered one said is another agent's: the same task, begun again or at once;
* a history that was cut or edited is the same agent's only if it kept the opening and the last thing the model said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from concur_agents.gateway.conversation import Conversation, Mark

__all__ = ["Histories"]

# Edits cut old tool outputs and keep the last turns.
_RECENT = 4


@dataclass(slots=True)
class _History:
    mark: Mark
    opening: bytes
    answered: bool = False
    said: bytes | None = None


class Histories:
    """The last request of each agent, by what it said. Of constant size for each agent, however long it talks."""

    def __init__(self) -> None:
        self._of: dict[str, _History] = {}
        self._by_end: dict[bytes, dict[str, None]] = {}
        self._by_said: dict[bytes, dict[str, None]] = {}
        """By opening and last answer: ids of calls may be the same in many conversations."""

    def __len__(self) -> int:
        return len(self._of)

    def find(self, conversation: Conversation, idle: Callable[[str], bool]) -> str | None:
        """The agent that this conversation is of; None for a new one.

        Args:
            conversation: of the request.
            idle: whether an agent has no request in flight.
        """
        for digest in reversed(conversation.chain):
            same = [each for each in self._by_end.get(digest, ()) if idle(each) and self._goes_on(each, conversation)]
            if same:
                return self._told_apart(same, conversation)
        for said in conversation.said[: -_RECENT - 1 : -1]:
            for each in self._by_said.get(conversation.opening + said, ()):
                if idle(each):
                    return each
        return None

    def asked(self, agent_id: str, conversation: Conversation) -> None:
        """The agent's request is on its way."""
        self.forget(agent_id)
        mark = conversation.mark
        self._of[agent_id] = _History(mark, conversation.opening)
        self._by_end.setdefault(mark.digest, {})[agent_id] = None

    def answered(self, agent_id: str, said: bytes | None) -> None:
        """The engine answered it, and the client was there; ``said`` tells the reply from others, where known."""
        history = self._of.get(agent_id)
        if history is not None:
            history.answered = True
            if said is not None:
                history.said = said
                self._by_said.setdefault(history.opening + said, {})[agent_id] = None

    def forget(self, agent_id: str) -> None:
        """The agent has ended."""
        history = self._of.pop(agent_id, None)
        if history is not None:
            _drop(self._by_end, history.mark.digest, agent_id)
            if history.said is not None:
                _drop(self._by_said, history.opening + history.said, agent_id)

    def _goes_on(self, agent_id: str, conversation: Conversation) -> bool:
        history = self._of[agent_id]
        if not conversation.goes_on_from(history.mark):
            return False
        return not (history.answered and conversation.equals(history.mark))

    def _told_apart(self, agents: Iterable[str], conversation: Conversation) -> str:
        first, *others = agents
        if others:
            said = set(conversation.said)
            for each in (first, *others):
                if self._of[each].said in said:
                    return each
        return first


def _drop(index: dict[bytes, dict[str, None]], key: bytes, agent_id: str) -> None:
    agents = index.get(key)
    if agents is not None:
        agents.pop(agent_id, None)
        if not agents:
            del index[key]
