from typing import Any

import pytest

from concur_agents.emulator.scripts import ScriptedReply, ScriptStore, count_turns, opening


def replies(*texts: str) -> list[ScriptedReply]:
    return [ScriptedReply.parse({"content": text}, "reply") for text in texts]


def test_a_turn_gets_its_reply_and_so_does_a_retry() -> None:
    store = ScriptStore()
    store.register("s", replies("one", "two"))
    got = [store.reply("s", turn) for turn in (0, 1, 1)]
    assert [reply.reply.content for reply in got if reply] == ["one", "two", "two"]


def test_there_is_nothing_past_the_end_nor_without_a_script() -> None:
    store = ScriptStore()
    store.register("s", replies("one"))
    assert (store.reply("s", 1), store.reply("t", 0), store.reply(None, 0)) == (None, None, None)


def test_registering_again_replaces() -> None:
    store = ScriptStore()
    store.register("s", replies("one"))
    store.register("s", replies("other"))
    reply = store.reply("s", 0)
    assert reply is not None
    assert reply.reply.content == "other"


def test_the_least_recently_used_session_goes_first() -> None:
    store = ScriptStore(max_chars=3 * 164)
    for name in "abc":
        store.register(name, replies("x" * 100))
    store.reply("a", 0)
    store.register("d", replies("x" * 100))
    assert [name for name in "abcd" if store.reply(name, 0)] == ["a", "c", "d"]


def test_removing_gives_the_room_back() -> None:
    store = ScriptStore(max_chars=164)
    store.register("a", replies("x" * 100))
    assert store.remove("a")
    assert not store.remove("a")
    store.register("b", replies("x" * 100))
    assert len(store) == 1


def test_a_conversation_that_names_no_session_is_found_by_its_opening() -> None:
    store = ScriptStore()
    store.register("a", replies("first"), match="task 1.")
    store.register("b", replies("second"), match="task 2.")

    def said(session: str | None, text: str) -> str | None:
        reply = store.reply(session, 0, text)
        return reply.reply.content if reply else None

    assert said(None, "Solve task 2. please") == "second"
    assert said("unknown", "Solve task 1. please") == "first"
    assert said("a", "Solve task 2. please") == "first"
    assert said(None, "Solve task 3.") is None
    store.register("b", replies("third"))
    assert said(None, "Solve task 2. please") is None


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([{"role": "system", "content": "S"}, {"role": "user", "content": "U"}, {"role": "user", "content": "V"}], "U"),
        ([{"role": "user", "content": [{"type": "text", "text": "U"}, {"type": "image_url"}]}], "U"),
        ([{"role": "user", "content": None}], ""),
        ([{"role": "assistant", "content": "A"}], ""),
    ],
)
def test_the_opening_is_the_first_user_message(messages: Any, text: str) -> None:
    assert opening(messages) == text


def test_a_script_beyond_the_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 50 characters, got 164"):
        ScriptStore(max_chars=50).register("s", replies("x" * 100))


def test_tool_arguments_may_be_an_object_or_json() -> None:
    reply = ScriptedReply.parse(
        {"tool_calls": [{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": "{}"}, {"name": "c"}]}, "r"
    )
    assert reply.reply.tool_calls == (("a", '{"x": 1}'), ("b", "{}"), ("c", "{}"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("text", "r must be an object"),
        ({"contnt": "x"}, "unknown fields: contnt"),
        ({"content": 5}, "r.content must be a string or null, got 5"),
        ({"reasoning": []}, "r.reasoning must be"),
        ({"output_tokens": 0}, "r.output_tokens must be null or at least 1, got 0"),
        ({"output_tokens": True}, "r.output_tokens must be"),
        ({"tool_calls": {}}, "r.tool_calls must be a list"),
        ({"tool_calls": [{"arguments": {}}]}, r"r.tool_calls\[0\] must be an object with a name"),
    ],
)
def test_a_bad_reply_says_what_is_wrong(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ScriptedReply.parse(data, "r")


def test_turns_are_counted_by_assistant_messages() -> None:
    assert count_turns([{"role": "user"}, {"role": "assistant"}, {"role": "tool"}, {"role": "assistant"}]) == 2
