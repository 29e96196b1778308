"""The gateway's own API."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

BODY = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 3}


@pytest.fixture
def client(served: Any) -> Any:
    with httpx.Client(base_url=served.url) as one:
        yield one


def step(client: Any, agent: str, **headers: str) -> None:
    named = {"X-Session-ID": agent} | {name.replace("_", "-"): value for name, value in headers.items()}
    assert client.post("/v1/chat/completions", json=BODY, headers=named).status_code == 200


def test_agents_are_listed_with_what_is_known_of_them(client: Any) -> None:
    assert client.get("/concur/v1/agents").json() == {"total": 0, "agents": []}
    step(client, "a")
    step(client, "b", x_parent_session_id="a")
    listed = client.get("/concur/v1/agents").json()
    assert listed["total"] == 2
    assert [(agent["agent_id"], agent["parent"], agent["steps"]) for agent in listed["agents"]] == [
        ("a", None, 1),
        ("b", "a", 1),
    ]
    assert client.get("/concur/v1/agents/a").json() == listed["agents"][0]
    assert listed["agents"][0]["context_tokens"] > 3
    assert listed["agents"][0]["state"] == "in_tool"


def test_a_listing_has_pages(client: Any) -> None:
    for agent in "abcde":
        step(client, agent)
    page = client.get("/concur/v1/agents", params={"limit": 2, "offset": 3}).json()
    assert page["total"] == 5
    assert [agent["agent_id"] for agent in page["agents"]] == ["d", "e"]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"limit": "0"}, "limit must be a whole number from 1 to 1000, got '0'"),
        ({"limit": "1001"}, "got '1001'"),
        ({"limit": "x"}, "got 'x'"),
        ({"offset": "-1"}, "offset must be"),
        ({"offset": "9" * 100}, "offset must be"),
        ({"offset": "²"}, "offset must be"),
    ],
)
def test_bad_pages_are_named(client: Any, params: dict[str, str], said: str) -> None:
    reply = client.get("/concur/v1/agents", params=params)
    assert reply.status_code == 422
    assert said in reply.json()["error"]["message"]


@pytest.mark.parametrize("agent", ["a", "a/b", "a b", "ä", "100%", "..", "a?b#c"])
def test_an_agent_is_ended_once_whatever_its_name(client: Any, agent: str) -> None:
    import urllib.parse

    named = urllib.parse.quote(agent, safe="")
    step(client, named)
    path = f"/concur/v1/agents/{named.replace('.', '%2E')}"
    assert client.get(path).json()["agent_id"] == agent
    assert client.delete(path).json() == {"finished": True}
    assert client.delete(path).json() == {"finished": False}
    assert client.get(path).status_code == 404


def test_an_end_has_an_outcome(client: Any) -> None:
    step(client, "a")
    bad = client.delete("/concur/v1/agents/a", params={"outcome": "great"})
    assert bad.status_code == 422
    assert "got 'great'" in bad.json()["error"]["message"]
    assert client.delete("/concur/v1/agents/a", params={"outcome": "failed"}).json() == {"finished": True}
    assert client.get("/concur/v1/status").json()["engines"][0]["finished"] == {"failed": 1}


def test_the_end_of_an_agent_is_the_end_of_its_sub_agents(client: Any) -> None:
    step(client, "a")
    step(client, "b", x_parent_session_id="a")
    step(client, "c", x_parent_session_id="b")
    client.delete("/concur/v1/agents/a")
    assert client.get("/concur/v1/agents").json()["total"] == 0


def test_the_status_is_json_without_infinities(client: Any, wire: Any) -> None:
    step(client, "a")
    text = client.get("/concur/v1/status").text
    status = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert status["agents"] == 1
    assert status["engines"][0]["up"] is True
    assert status["engines"][0]["token_budget"] is None


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/concur/v1/nothing", 404), ("POST", "/concur/v1/agents", 405)]
)
def test_what_is_not_there_is_never_the_engines(client: Any, method: str, path: str, status: int) -> None:
    reply = client.request(method, path)
    assert reply.status_code == status
    assert set(reply.json()) == {"error"}


def test_every_path_is_described_and_nothing_else(client: Any, served: Any) -> None:
    described = client.get("/concur/v1/openapi.json").json()
    routes = {
        (route.path.replace(":path", ""), method.lower())
        for route in served.gateway._api.routes
        for method in route.methods
    }
    assert {
        (path, method) for path, ways in described["paths"].items() for method in ways if method != "parameters"
    } == {each for each in routes if each[1] != "head"}
