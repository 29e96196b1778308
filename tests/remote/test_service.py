"""The service over HTTP, as curl and as enemies use it."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from concur_agents import Controller
from concur_agents.remote import codec
from concur_agents.remote.client import RemoteController
from concur_agents.remote.codec import parse
from concur_agents.remote.protocol import LONGEST_WAIT_S, OPERATIONS, RefusedError
from concur_agents.remote.server import check_exposure

Serve = Callable[..., Any]
AGENT = "/concur/v1/agents/a"
SECRET = "s3cret-token"


def post(url: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
    content = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
    return httpx.post(url + path, content=content, headers=headers, timeout=30)


def test_an_agents_life_by_hand(serve: Serve) -> None:
    url = serve().url
    assert post(url, f"{AGENT}/admit").json()["granted"] is True
    assert post(url, "/concur/v1/agents/b/admit", {"parent": "x"}).json() | {"controller": ""} == {
        "state": "waiting",
        "controller": "",
    }
    assert post(url, f"{AGENT}/pause", {"usage": {"prompt": 5, "output": 2}}).json()["state"] == "in_tool"
    assert httpx.get(url + AGENT).json()["context_tokens"] == 7
    page = httpx.get(url + "/concur/v1/agents?limit=1&offset=1").json()
    assert (page["total"], [each["agent_id"] for each in page["agents"]]) == (2, ["b"])
    assert httpx.delete(url + AGENT + "?outcome=failed").json()["changed"] is True
    assert post(url, "/concur/v1/agents/b/admit", {"wait_s": 5}).json()["granted"] is True
    assert httpx.get(url + "/concur/v1/stats").json()["finished"] == {"failed": 1}
    assert httpx.get(url + "/concur/v1/history").json()["history"][0]["reason"] == "start"
    assert httpx.get(url + AGENT).status_code == 404


def test_a_long_poll_is_answered_when_the_seat_is_free(serve: Serve) -> None:
    url = serve().url
    post(url, f"{AGENT}/admit")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(post, url, "/concur/v1/agents/b/admit", {"wait_s": 25})
        while httpx.get(url + "/concur/v1/stats").json()["population"]["waiting"] == 0:
            pass
        httpx.delete(url + AGENT)
        assert waiting.result().json()["granted"] is True


def test_an_idempotency_key_joins_the_same_request(serve: Serve) -> None:
    url = serve().url
    key = {"Idempotency-Key": "one"}
    assert post(url, f"{AGENT}/admit", **key).json()["granted"]
    assert post(url, f"{AGENT}/admit", **key).json()["granted"]
    post(url, f"{AGENT}/pause")
    assert "granted" not in post(url, f"{AGENT}/admit", **key).json()


@pytest.mark.parametrize("name", ["a/b", "ü ñ", "..", "%2F", "a?b#c", "x\ny", "👋", "\ud800", "'\"", "a" * 1024])
def test_any_name_may_be_an_agents(serve: Serve, name: str) -> None:
    service = serve()
    with Controller.connect(service.url) as remote:
        remote.sync.admit(name)
        assert [view.agent_id for view in remote.agents()] == [name]
        view = remote.view(name)
        assert view is not None
        assert view.agent_id == name
        remote.finish(name)
        assert remote.agents() == ()


def test_who_has_no_token_is_refused_and_it_is_in_no_log(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    service = serve(token=SECRET)
    for headers in ({}, {"Authorization": "Bearer nope"}, {"Authorization": SECRET}, {"Authorization": "bearer x"}):
        for path in (f"{AGENT}/admit", "/concur/v1/workers/w/register", "/nowhere"):
            answer = post(service.url, path, **headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert answer.json()["error"]["kind"] == "unauthorized"
    assert post(service.url, f"{AGENT}/admit", Authorization=f"Bearer {SECRET}").json()["granted"]
    with Controller.connect(service.url, token="wrong") as remote:
        with remote.sync.agent("b") as agent, agent.step():
            pass  # without control, and said
        assert "a token is needed" in caplog.text
    with Controller.connect(service.url, token=SECRET) as remote:
        assert [view.agent_id for view in remote.agents()] == ["a"]
        assert SECRET not in repr(vars(remote))
    assert SECRET not in caplog.text


def test_the_token_may_be_in_the_environment(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    service = serve(token=SECRET)
    monkeypatch.setenv("CONCUR_TOKEN", SECRET)
    with Controller.connect(service.url) as remote:
        assert remote.agents() == ()


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (f"{AGENT}/admit", b"{", "the body must be JSON"),
        (f"{AGENT}/admit", b"[1]", "the body must be a JSON object, got [1]"),
        (f"{AGENT}/admit", b"\xff\xfe", "the body must be JSON"),
        (f"{AGENT}/admit", b"[" * 100_000, "the body must be JSON"),
        (f"{AGENT}/admit", {"wait": 1}, "'wait' is no field of admit: agent, worker, seq, key, parent, wait_s"),
        (f"{AGENT}/admit", {"wait_s": -1}, "wait_s must be a number of seconds from 0 to 60, got -1"),
        (f"{AGENT}/admit", {"wait_s": "1"}, "wait_s must be a number of seconds from 0 to 60, got '1'"),
        (f"{AGENT}/admit", b'{"wait_s": NaN}', "wait_s must be a number of seconds from 0 to 60, got nan"),
        (f"{AGENT}/admit", {"wait_s": True}, "wait_s must be a number of seconds from 0 to 60, got True"),
        (f"{AGENT}/admit", {"seq": -1}, "seq must be a whole number from 0 to 9007199254740992, got -1"),
        (f"{AGENT}/admit", {"seq": 10**400}, "seq must be a whole number from 0 to 9007199254740992, got 1000"),
        (f"{AGENT}/admit", {"parent": ""}, "parent must be a text of 1 to 1024 characters, got ''"),
        (f"{AGENT}/admit", {"agent": "b"}, "agent is 'a' in the address and another in the body"),
        (f"/concur/v1/agents/{'a' * 1025}/admit", {}, "agent must be a text of 1 to 1024 characters"),
        ("/concur/v1/agents//admit", {}, "agent must be a text of 1 to 1024 characters"),
        (f"{AGENT}/finish", {"outcome": "well"}, "outcome must be one of completed, failed, cancelled, got 'well'"),
        (f"{AGENT}/pause", {"usage": 3}, "usage must be an object"),
        (f"{AGENT}/pause", {"usage": {"prompt": -1}}, "usage.prompt must be a whole number from 0"),
        (f"{AGENT}/observe", {}, "usage is missing"),
        (f"{AGENT}/withdraw", {"keep": 1}, "keep must be true or false, got 1"),
        ("/concur/v1/workers/w/register", {"lease_s": 0}, "lease_s must be a number of seconds from 0.1 to 86400"),
        ("/concur/v1/workers/w/register", {"agents": 1}, "agents must be a list of objects, got 1"),
        ("/concur/v1/workers/w/register", {"agents": [{"agent": "a"}]}, "state is missing"),
        (
            "/concur/v1/workers/w/register",
            {"agents": [{"agent": "a", "state": "gone"}]},
            "state must be one of waiting",
        ),
        ("/concur/v1/workers/w/register", {"ended": [["a"]]}, "ended must be a list of [agent, outcome]"),
        (f"{AGENT}/dance", {}, f"POST '{AGENT}/dance': no such address"),
        ("/concur/v1/agents/a/b/admit", {}, "an ID's slashes are %2F"),
        ("/", {}, "no such address"),
    ],
)
def test_what_is_wrong_is_named_with_its_value(serve: Serve, path: str, body: Any, said: str) -> None:
    answer = post(serve().url, path, body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["kind"], said in error["message"]) == ("invalid", True), error
    assert len(error["message"]) < 1000


def test_a_body_that_is_too_large_is_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concur_agents.remote.service._LONGEST_BODY", 100)
    answer = post(serve().url, f"{AGENT}/admit", b" " * 200)
    assert "the body must be of at most 100 bytes" in answer.json()["error"]["message"]


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "offset=-1", "limit=1001", "page=1", "limit=" + "9" * 40])
def test_a_bad_query_is_named(serve: Serve, query: str) -> None:
    answer = httpx.get(f"{serve().url}/concur/v1/agents?{query}")
    assert (answer.status_code, query.partition("=")[0] in answer.json()["error"]["message"]) == (400, True)


def test_what_is_no_http_harms_nobody(serve: Serve) -> None:
    service = serve()
    host, port = service.url.removeprefix("http://").split(":")
    cut = b"POST /concur/v1/agents/a/admit HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n{"
    for garbage in (b"\x00" * 100, b"GET\r\n\r\n", cut):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    assert httpx.get(service.url + "/concur/v1/agents").json()["total"] == 0


FIELD = st.sampled_from([*codec._FIELDS, "x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from([*codec._FIELDS, "x"]), each, max_size=3),
    max_leaves=10,
)


@given(operation=st.sampled_from([*OPERATIONS, "x", ""]), body=JSON)
def test_no_body_is_more_than_refused(operation: str, body: Any) -> None:
    try:
        message = parse(operation, body)
    except RefusedError as refused:
        assert (refused.kind, len(refused.message) < 2000) == ("invalid", True)  # noqa: PT017 - most are refused
    else:
        assert parse(operation, json.loads(json.dumps(codec.body_of(message)))) == message


@pytest.mark.parametrize(
    ("host", "token", "insecure", "good"),
    [
        ("127.0.0.1", None, False, True),
        ("127.9.9.9", None, False, True),
        ("::1", None, False, True),
        ("localhost", None, False, True),
        ("0.0.0.0", None, False, False),
        ("::", None, False, False),
        ("10.0.0.1", None, False, False),
        ("example.org", None, False, False),
        ("0.0.0.0", "t", False, True),
        ("0.0.0.0", None, True, True),
    ],
)
def test_other_hosts_need_a_token_or_a_word(host: str, token: str | None, insecure: bool, good: bool) -> None:
    if good:
        check_exposure(host, token, insecure=insecure)
    else:
        with pytest.raises(ValueError, match="is no loopback address"):
            check_exposure(host, token, insecure=insecure)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("127.0.0.1:1", "must start with http"),
        ("ftp://h", "must start with http"),
        ("http://", "must be a controller's address"),
        ("http://h/x", "must be a controller's address"),
        ("http://h?x", "must be a controller's address"),
        ("http://h:99999", "has no good port"),
        ("http://user:hush@h", "must not hold a user or a password"),
    ],
)
def test_a_bad_address_is_named_without_its_secrets(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        Controller.connect(url)
    assert "hush" not in str(caught.value)


def test_bad_parameters_are_named() -> None:
    assert LONGEST_WAIT_S == 60
    for name in ("lease_s", "patience_s"):
        with pytest.raises(ValueError, match=f"{name} must be a finite number of seconds above 0, got 0"):
            Controller.connect("http://h", **{name: 0})
    with pytest.raises(ValueError, match="token must be visible") as caught:
        RemoteController.at("http://h", token="a b")
    assert "a b" not in str(caught.value)
    with pytest.raises(ValueError, match="session_header must be"):
        Controller.connect("http://h", session_header="a b")
