"""Who is named by a request: headers and fields, in their order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from concur_agents.agents import header_value
from concur_agents.gateway.bodies import Body
from concur_agents.gateway.identity import DEFAULT_IDENTITY, Claim, Identity, is_final


async def claim(headers: dict[str, str], body: Any = None, sources: tuple[str, ...] = DEFAULT_IDENTITY) -> Claim | None:
    raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    return await Identity(sources).claim({name.lower(): value for name, value in headers.items()}, Body(raw))


@pytest.mark.parametrize(
    "header",
    [
        "X-Session-ID",
        "X-SMG-Routing-Key",
        "x-dynamo-session-id",
        "x-claude-code-session-id",
        "session-id",
        "session_id",
        "x-opencode-session",
    ],
)
async def test_each_header_names(header: str) -> None:
    assert await claim({header: "task-1"}) == Claim("task-1")


@pytest.mark.parametrize("field", ["session_id", "program_id"])
@pytest.mark.parametrize(("value", "agent_id"), [("task-1", "task-1"), (17, "17")])
async def test_each_field_names(field: str, value: Any, agent_id: str) -> None:
    assert await claim({}, {field: value}) == Claim(agent_id)


@pytest.mark.parametrize("value", [None, "", True, 1.5, [], {}, ["a"]])
async def test_what_is_no_id_names_nobody(value: Any) -> None:
    assert await claim({"X-Session-ID": ""}, {"session_id": value}) is None


@pytest.mark.parametrize("body", [b"", b"no json", b"[1]", b"\xff", b"[" * 100_000], ids=range(5))
async def test_what_is_no_object_names_nobody(body: bytes) -> None:
    assert await claim({}, body) is None


async def test_a_person_is_no_agent() -> None:
    assert await claim({}, {"user": "alice"}) is None
    assert await claim({}, {"user": "alice"}, ("body:user",)) == Claim("alice")


async def test_the_first_source_that_speaks_counts() -> None:
    headers, body = {"x-dynamo-session-id": "d", "X-Session-ID": "s"}, {"session_id": "b"}
    assert await claim(headers, body) == Claim("s")
    assert await claim(headers, body, ("body:session_id", "header:x-dynamo-session-id")) == Claim("b")
    assert await claim(headers, {}, ("body:session_id", "header:x-dynamo-session-id")) == Claim("d")


async def test_a_body_is_not_parsed_for_who_is_named_by_a_header() -> None:
    body = Body(b'{"session_id": "b"}')
    assert await Identity().claim({"x-session-id": "s"}, body) == Claim("s")
    assert body._parsed is None


async def test_fields_may_be_inside_others() -> None:
    assert await claim({}, {"metadata": {"run": "r1"}}, ("body:metadata.run",)) == Claim("r1")
    assert await claim({}, {"metadata": "text"}, ("body:metadata.run",)) is None


@pytest.mark.parametrize("agent_id", ["a b", "ä", "100%", "a/b", "\n", "日本"])
async def test_ids_of_our_own_headers_come_back_as_they_were(agent_id: str) -> None:
    assert await claim({"X-Session-ID": header_value(agent_id)}) == Claim(agent_id)


async def test_long_ids_stay_apart_and_short() -> None:
    one, two = [await claim({"X-Session-ID": "x" * 5000 + end}) for end in "12"]
    assert one is not None
    assert two is not None
    assert one != two
    assert len(one.agent_id) < 100


async def test_sub_agents_share_their_parents_seat() -> None:
    assert await claim({"X-Session-ID": "s", "x-dynamo-parent-session-id": "p"}) == Claim("s", "p")
    session = {"x-claude-code-session-id": "c"}
    assert await claim({**session, "x-claude-code-agent-id": "a"}) == Claim("c/a", "c")
    both = {**session, "x-claude-code-agent-id": "a", "x-claude-code-parent-agent-id": "b"}
    assert await claim(both) == Claim("c/a", "c/b")


@pytest.mark.parametrize(
    ("value", "final"), [("true", True), ("1", True), ("True", True), ("false", False), ("", False)]
)
def test_an_agent_may_say_that_a_request_is_its_last(value: str, final: bool) -> None:
    assert is_final({"x-dynamo-session-final": value}) is is_final({"x-session-final": value}) is final


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (("cookie:a",), "'cookie:a'"),
        (("header:",), "'header:'"),
        (("header:a b",), "'header:a b'"),
        (("body:a..b",), "'body:a..b'"),
        (("prefix:1",), "'prefix:1'"),
        (("",), "''"),
        (("prefix", "prefix"), "twice"),
    ],
)
def test_sources_that_are_none_are_named(sources: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Identity(sources)
