"""A chat's tokens begin with those of the shorter chat that it goes on from; what was generated is in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.front.prompts import Prompts
from benchmarks.real.calibrate import FIRST_ID, LAST_ID

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
CALL = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}

messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": st.text()}),
    max_size=6,
)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str, **more: object) -> dict[str, object]:
    return {"role": "assistant", "content": text, **more}


@given(messages, messages, st.sampled_from([4, 8, 16]))
def test_a_longer_chat_begins_with_the_shorter_one(
    before: list[dict[str, str]], after: list[dict[str, str]], characters: int
) -> None:
    prompts = Prompts(characters)
    begun = prompts.ids([*before, user("on")], TOOLS)
    head = prompts.ids([])
    assert prompts.ids([*before, user("on"), *after], TOOLS)[: len(begun) - len(head)] == begun[: -len(head)]


@given(messages)
def test_every_id_is_a_word_of_the_model(chat: list[dict[str, str]]) -> None:
    assert all(FIRST_ID <= number < LAST_ID for number in Prompts().ids(chat))


def test_two_makers_agree_on_a_chat() -> None:
    chat = [user("a longer text, of several tokens"), assistant("and an answer")]
    assert Prompts().ids(chat, TOOLS) == Prompts().ids(chat, TOOLS)


def test_what_was_generated_stands_where_it_was_said() -> None:
    prompts = Prompts()
    asked = prompts.ids([user("first")])
    prompts.said(asked, assistant("", tool_calls=[CALL]), [1, 2, 3])
    spaced = {**CALL, "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    longer = prompts.ids([user("first"), assistant("", tool_calls=[spaced]), user("second")])
    assert longer[: len(asked) + 3] == [*asked, 1, 2, 3]


def test_what_nobody_said_is_a_text_like_any_other() -> None:
    prompts = Prompts()
    asked = prompts.ids([user("first")])
    prompts.said(asked, assistant("yes"), [1, 2, 3])
    edited = prompts.ids([user("first"), assistant("no")])
    assert edited[: len(asked)] == asked
    assert edited[len(asked) : len(asked) + 3] != [1, 2, 3]


def test_two_chats_with_the_same_answer_keep_their_own() -> None:
    prompts = Prompts()
    for number in range(2):
        prompts.said(prompts.ids([user(f"task {number}")]), assistant("yes"), [number])
    for number in range(2):
        asked = prompts.ids([user(f"task {number}")])
        assert prompts.ids([user(f"task {number}"), assistant("yes")])[len(asked)] == number


def test_of_too_much_the_oldest_is_forgotten() -> None:
    prompts = Prompts(remember=5)
    asked = [prompts.ids([user(f"task {number}")]) for number in range(3)]
    for prompt in asked:
        prompts.said(prompt, assistant("yes"), [1, 2])
    known = [
        prompts.ids([user(f"task {number}"), assistant("yes")])[len(asked[number]) :][:2] == [1, 2]
        for number in range(3)
    ]
    assert known == [False, True, True]


def test_the_same_said_again_takes_no_room() -> None:
    prompts = Prompts(remember=3)
    asked = prompts.ids([user("task")])
    for _ in range(5):
        prompts.said(asked, assistant("yes"), [1, 2, 3])
    assert prompts.ids([user("task"), assistant("yes")])[len(asked) :][:3] == [1, 2, 3]


def test_tokens_of_more_characters_are_fewer() -> None:
    chat = [user("x" * 1600)]
    short, long = len(Prompts(16).ids(chat)), len(Prompts(4).ids(chat))
    assert long / short == pytest.approx(4, rel=0.05)
    assert (Prompts(16).length(100), Prompts(16).length(1), Prompts(4).length(100)) == (25, 1, 100)


@pytest.mark.parametrize("characters", [0, -4, 3, 6])
def test_a_width_that_is_no_multiple_of_four_is_refused(characters: int) -> None:
    with pytest.raises(ValueError, match=f"characters must be a multiple of 4, not {characters}"):
        Prompts(characters)
