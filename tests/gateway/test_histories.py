"""Whose conversation it is, by what is said in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concur_agents.gateway.conversation import BLOCK, Conversation, read_conversation, said_in, spoken
from concur_agents.gateway.histories import Histories

CHAT = "/v1/chat/completions"
SYSTEM = {"role": "system", "content": "You solve tasks."}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def model(text: str = "", *calls: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **({"tool_calls": [{"id": call} for call in calls]} if calls else {})}


def tool(call: str, text: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": text}


def chat(*messages: dict[str, Any], path: str = CHAT, apart: tuple[str, ...] = (), **body: Any) -> Conversation:
    conversation = read_conversation(path, {"messages": list(messages), **body}, apart)
    assert conversation is not None
    return conversation


class Agents:
    """Agents as a roster keeps them: by their conversations alone."""

    def __init__(self) -> None:
        self.histories = Histories()
        self.busy: set[str] = set()
        self.made = 0

    def asks(self, conversation: Conversation) -> str:
        agent = self.histories.find(conversation, lambda each: each not in self.busy)
        if agent is None:
            self.made += 1
            agent = f"agent-{self.made}"
        self.histories.asked(agent, conversation)
        self.busy.add(agent)
        return agent

    def gets(self, agent: str, reply: dict[str, Any] | None) -> None:
        """``None``: the reply never came through."""
        self.busy.discard(agent)
        if reply is not None:
            self.histories.answered(agent, spoken(reply))

    def steps(self, conversation: Conversation, reply: dict[str, Any]) -> str:
        agent = self.asks(conversation)
        self.gets(agent, reply)
        return agent


@pytest.fixture
def agents() -> Agents:
    return Agents()


def test_an_agent_that_appends_is_one(agents: Agents) -> None:
    said = [SYSTEM, user("fix it")]
    for step in range(5):
        reply = model(f"step {step}", f"call-{step}")
        assert agents.steps(chat(*said), reply) == "agent-1"
        said += [reply, tool(f"call-{step}")]


def test_two_tasks_are_two(agents: Agents) -> None:
    assert agents.steps(chat(SYSTEM, user("one")), model("a")) != agents.steps(chat(SYSTEM, user("two")), model("a"))


def test_the_same_task_at_once_is_two(agents: Agents) -> None:
    first, second = agents.asks(chat(SYSTEM, user("x"))), agents.asks(chat(SYSTEM, user("x")))
    assert first != second


def test_the_same_task_again_after_its_answer_is_another(agents: Agents) -> None:
    assert agents.steps(chat(user("x")), model("a")) != agents.steps(chat(user("x")), model("b"))


def test_who_got_no_answer_and_asks_again_is_the_same(agents: Agents) -> None:
    first = agents.asks(chat(user("x")))
    agents.gets(first, None)
    assert agents.asks(chat(user("x"))) == first


def test_a_group_of_one_prompt_is_told_apart_by_the_answers(agents: Agents) -> None:
    start = chat(SYSTEM, user("x"))
    names = [agents.asks(start) for _ in range(4)]
    for index, name in enumerate(names):
        agents.gets(name, model(f"answer {index}"))
    for index, name in reversed(list(enumerate(names))):
        assert agents.asks(chat(SYSTEM, user("x"), model(f"answer {index}"), user("go on"))) == name


def test_a_group_is_told_apart_by_the_ids_of_calls(agents: Agents) -> None:
    names = [agents.asks(chat(user("x"))) for _ in range(3)]
    for index, name in enumerate(names):
        agents.gets(name, model("", f"call-{index}"))
    assert agents.asks(chat(user("x"), model("", "call-2"), tool("call-2"))) == names[2]
    assert agents.asks(chat(user("x"), model("", "call-0"), tool("call-0"))) == names[0]


def test_a_branch_beside_the_agent_is_another(agents: Agents) -> None:
    start = [user("x")]
    first = agents.steps(chat(*start), model("a"))
    one = agents.asks(chat(*start, model("a"), user("left")))
    two = agents.asks(chat(*start, model("a"), user("right")))
    assert first == one != two


def test_a_branch_from_an_earlier_point_is_another(agents: Agents) -> None:
    start = [user("x")]
    first = agents.steps(chat(*start), model("a"))
    assert agents.steps(chat(*start, model("a"), user("left")), model("b")) == first
    assert agents.steps(chat(*start, model("a"), user("right")), model("c")) != first


def test_an_edited_history_is_the_same_agents(agents: Agents) -> None:
    start = [SYSTEM, user("x")]
    first = agents.steps(chat(*start), model("", "c1"))
    again = agents.steps(chat(*start, model("", "c1"), tool("c1", "a very long output")), model("", "c2"))
    elided = chat(*start, model("", "c1"), tool("c1", "(elided)"), model("", "c2"), tool("c2"))
    assert first == again == agents.asks(elided)


def test_a_history_without_the_models_last_words_is_still_the_agents(agents: Agents) -> None:
    first = agents.steps(chat(SYSTEM, user("x")), model("", "c1"))
    assert agents.asks(chat(SYSTEM, user("x"), user("Summary: you did c1"))) == first


def test_a_history_that_begins_anew_is_another_agents(agents: Agents) -> None:
    first = agents.steps(chat(SYSTEM, user("x")), model("", "c1"))
    assert agents.asks(chat(SYSTEM, user("Summary: x, you did c1"))) != first


def test_marks_for_a_cache_are_no_part_of_a_message(agents: Agents) -> None:
    marked = {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}
    plain = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    first = agents.steps(chat(marked), model("a"))
    assert agents.asks(chat(plain, model("a"), marked)) == first


@pytest.mark.parametrize("apart", ["key", "model", "user"])
def test_keys_models_and_users_keep_conversations_apart(agents: Agents, apart: str) -> None:
    first = agents.steps(chat(user("x"), apart=(apart, "1")), model("a"))
    assert agents.asks(chat(user("x"), model("a"), user("y"), apart=(apart, "2"))) != first
    assert agents.asks(chat(user("x"), model("a"), user("y"), apart=(apart, "1"))) == first


@pytest.mark.parametrize("kind", ["text", "ids", "batch of one"])
def test_texts_and_token_ids_are_matched_by_what_they_begin_with(agents: Agents, kind: str) -> None:
    def prompt(size: int, seed: int = 0) -> Conversation:
        text = "".join(chr(97 + (seed + index * 7) % 26) for index in range(size))
        given = {"text": text, "batch of one": [text], "ids": [ord(char) for char in text]}[kind]
        conversation = read_conversation("/v1/completions", {"prompt": given}, ())
        assert conversation is not None
        return conversation

    first = agents.steps(prompt(BLOCK + 100), model("a"))
    assert agents.steps(prompt(BLOCK + 101), model("a")) == first  # a token more, within the same block
    assert agents.steps(prompt(5 * BLOCK), model("a")) == first
    assert agents.steps(prompt(5 * BLOCK, seed=1), model("a")) != first
    assert agents.steps(prompt(5 * BLOCK), model("a")) != first  # nothing new: begun again


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": None},
        {"messages": "text"},
        {"messages": [1]},
        {"messages": {"role": "user"}},
        {"messages": [{"role": "assistant", "tool_calls": [1]}]},
        {"messages": [{"role": "assistant", "content": [1]}]},
    ],
    ids=repr,
)
def test_what_is_no_conversation_is_nobodys(body: dict[str, Any]) -> None:
    assert read_conversation(CHAT, body, ()) is None


@pytest.mark.parametrize("body", [{"prompt": "short"}, {"prompt": ["a", "b"]}, {"prompt": [[1], [2]]}, {"prompt": 1}])
def test_prompts_that_say_too_little_are_nobodys(body: dict[str, Any]) -> None:
    assert read_conversation("/v1/completions", body, ()) is None


def test_each_api_has_its_conversations() -> None:
    assert read_conversation("/v1/responses", {"input": "x", "instructions": "y"}, ()) is not None
    assert read_conversation("/v1/responses", {"input": [user("x")]}, ()) is not None
    assert read_conversation("/v1/messages", {"system": "s", "messages": [user("x")]}, ()) is not None
    assert read_conversation("/generate", {"input_ids": list(range(BLOCK))}, ()) is not None
    assert read_conversation("/generate", {"text": "x" * BLOCK}, ()) is not None


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"choices": [{"message": model("hello ")}]}, model("hello")),
        ({"choices": [{"message": model("", "c1")}]}, model("other text", "c1")),
        ({"role": "assistant", "content": [{"type": "text", "text": "hi"}]}, model("hi")),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "t1"}]}, model("", "t1")),
        ({"output": [{"type": "message", "content": [{"text": "hi"}]}]}, model("hi")),
        ({"output": [{"type": "function_call", "call_id": "f1"}]}, {"type": "function_call", "call_id": "f1"}),
    ],
)
def test_a_reply_is_known_again_in_the_next_request(reply: dict[str, Any], message: dict[str, Any]) -> None:
    assert said_in(reply) == spoken(message) is not None


def test_what_ended_leaves_nothing(agents: Agents) -> None:
    for index in range(10):
        agents.steps(chat(user(str(index))), model("a", f"call-{index}"))
    for index in range(10):
        agents.histories.forget(f"agent-{index + 1}")
        agents.histories.forget(f"agent-{index + 1}")
    assert len(agents.histories) == len(agents.histories._by_end) == len(agents.histories._by_said) == 0


@given(st.lists(st.tuples(st.integers(0, 7), st.booleans()), max_size=60), st.integers(1, 3))
def test_any_interleaving_of_agents_keeps_them_apart(turns: list[tuple[int, bool]], tasks: int) -> None:
    """Agents with as few tasks as may be, each step whole or given up and sent again; answers are all different."""
    agents = Agents()
    said = {agent: [SYSTEM, user(f"task {agent % tasks}")] for agent in range(8)}
    name: dict[int, str] = {}
    asked: dict[int, str] = {}
    for turn, (agent, fails) in enumerate(turns):
        if agent not in asked:
            asked[agent] = agents.asks(chat(*said[agent]))
            continue
        given = asked.pop(agent)
        if fails:
            agents.gets(given, None)
            continue
        reply = model("", f"call-{turn}")
        agents.gets(given, reply)
        said[agent] += [reply, tool(f"call-{turn}")]
        # Who gave up before any answer may be taken for another of the same task; from the first answer on it is fixed.
        assert name.setdefault(agent, given) == given
        assert len(set(name.values())) == len(name)
