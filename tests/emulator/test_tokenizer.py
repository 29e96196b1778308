import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from concur_agents.emulator.radix import TOKEN_BYTES
from concur_agents.emulator.tokenizer import ByteTokenizer, Reply

TEXT = st.text(max_size=30)
TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
CALL = st.tuples(st.sampled_from(["bash", "read"]), st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=2))
MESSAGES = st.lists(
    st.one_of(
        st.builds(lambda text: {"role": "user", "content": text}, TEXT),
        st.builds(
            lambda text, calls: {
                "role": "assistant",
                "content": text,
                "tool_calls": [{"function": {"name": n, "arguments": json.dumps(a)}} for n, a in calls],
            },
            TEXT,
            st.lists(CALL, max_size=2),
        ),
        st.builds(lambda text: {"role": "tool", "content": [{"type": "text", "text": text}]}, TEXT),
    ),
    min_size=2,
    max_size=6,
)


@given(MESSAGES, st.sampled_from([None, TOOLS]), st.data())
def test_a_longer_chat_starts_with_the_shorter_one(
    messages: list[Any], tools: list[Any] | None, data: st.DataObject
) -> None:
    shorter = messages[: data.draw(st.integers(1, len(messages) - 1))]
    tokenizer = ByteTokenizer()
    ending = tokenizer.START + tokenizer.encode("assistant")
    assert tokenizer.render(messages, tools).startswith(tokenizer.render(shorter, tools).removesuffix(ending))


@given(TEXT, st.lists(CALL, max_size=2))
def test_a_generated_reply_is_what_the_next_prompt_shows(text: str, calls: list[Any]) -> None:
    tokenizer = ByteTokenizer()
    reply = Reply(content=text, tool_calls=tuple((name, json.dumps(arguments)) for name, arguments in calls))
    # A client parses the arguments and writes them again in its own spelling.
    written = [{"function": {"name": n, "arguments": json.dumps(a, separators=(",", ":"))}} for n, a in calls]
    chat: list[Any] = [{"role": "user", "content": "go"}]
    after = [*chat, {"role": "assistant", "content": text, "tool_calls": written}, {"role": "user", "content": "more"}]
    assert tokenizer.render(after, None).startswith(tokenizer.render(chat, None) + tokenizer.render_reply(reply))


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_text_comes_back(text: str) -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.integers(0, 50), st.integers(0, 2**32))
def test_filler_has_the_length_asked_for_and_survives_the_round_trip(count: int, seed: int) -> None:
    tokenizer = ByteTokenizer()
    tokens = tokenizer.filler(count, seed)
    assert len(tokens) == count * TOKEN_BYTES
    assert tokenizer.encode(tokenizer.decode(tokens)) == tokens


def test_filler_depends_on_the_seed() -> None:
    assert ByteTokenizer().filler(9, 1) != ByteTokenizer().filler(9, 2)


def test_a_token_is_about_four_characters() -> None:
    assert len(ByteTokenizer().encode("x" * 4000)) == 1000 * TOKEN_BYTES


def test_reasoning_is_generated_but_not_shown_to_the_next_turn() -> None:
    tokenizer = ByteTokenizer()
    thought = tokenizer.render_reply(Reply(content="yes", reasoning="hm"))
    plain = tokenizer.render_reply(Reply(content="yes"))
    assert thought.endswith(plain)
    assert len(thought) > len(plain)


def test_remembering_messages_changes_nothing_and_is_bounded() -> None:
    tokenizer, forgetful = ByteTokenizer(), ByteTokenizer(remember_bytes=0)
    chat = [{"role": "user", "content": "hello"}] * 3
    assert tokenizer.render(chat, None) == tokenizer.render(chat, None) == forgetful.render(chat, None)
    assert not forgetful._known


def test_parts_of_text_are_told_apart_by_a_space() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]
    chats = [[{"role": "user", "content": content}] for content in (parts, "a b")]
    assert len({ByteTokenizer().render(chat, None) for chat in chats}) == 1


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": 5},
        {"role": "assistant", "tool_calls": ["x"]},
        {"role": "assistant", "tool_calls": [{"function": None}]},
    ],
)
def test_an_unreadable_message_is_a_value_error(message: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must"):
        ByteTokenizer().render([message], None)


def test_ids_are_the_same_in_another_process() -> None:
    code = (
        "from concur_agents.emulator.tokenizer import ByteTokenizer as T; "
        "print(T().render([{'role': 'user', 'content': 'hi'}], None).hex())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == ByteTokenizer().render([{"role": "user", "content": "hi"}], None).hex()
