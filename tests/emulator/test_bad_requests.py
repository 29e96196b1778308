"""Whatever a client sends, it gets an error in SGLang's shape, and the server goes on."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

USER = {"role": "user", "content": "hi"}


def chat(**fields: Any) -> dict[str, Any]:
    return {"messages": [USER], "max_tokens": 1, **fields}


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/chat/completions", {}, "messages: Field required"),
        ("/v1/chat/completions", [], "Input should be a dictionary"),
        ("/v1/chat/completions", {"messages": []}, "Messages cannot be empty."),
        ("/v1/chat/completions", {"messages": "hi"}, "messages: Input should be a valid list"),
        ("/v1/chat/completions", {"messages": ["hi"]}, "messages.0: Input should be an object"),
        ("/v1/chat/completions", {"messages": [{"role": "bad"}]}, "messages.0.role must be one of"),
        ("/v1/chat/completions", {"messages": [{**USER, "content": 5}]}, "content must be a string or a list"),
        ("/v1/chat/completions", {"messages": [{**USER, "tool_calls": 5}]}, "messages.0.tool_calls"),
        ("/v1/chat/completions", chat(tools=5), "tools: Input should be a valid list"),
        ("/v1/chat/completions", chat(max_tokens=-1), "max_new_tokens must be at least 0, got -1."),
        ("/v1/chat/completions", chat(max_tokens="x"), "max_tokens: Input should be a valid integer"),
        ("/v1/chat/completions", chat(max_tokens=2001), "max_completion_tokens is too large: 2001."),
        ("/v1/chat/completions", chat(max_tokens=1999), "Requested token count exceeds the model's maximum"),
        ("/v1/chat/completions", chat(n=2), "n must be 1 in the emulator, got 2"),
        ("/v1/chat/completions", chat(rid=5), "rid: Input should be a valid string"),
        ("/v1/chat/completions", chat(user=[]), "user: Input should be a valid string"),
        ("/v1/chat/completions", {"messages": [{**USER, "content": "x" * 9000}]}, "The input .* is longer than"),
        ("/v1/completions", {}, "prompt: Field required"),
        ("/v1/completions", {"prompt": ""}, "Prompt cannot be empty"),
        ("/v1/completions", {"prompt": {"a": 1}}, "prompt: Input should be"),
        ("/generate", [], "Input should be a dictionary"),
        ("/generate", {"input_ids": "x"}, "input_ids: Input should be a valid list"),
        ("/generate", {"input_ids": [-1]}, "input_ids: "),
        ("/generate", {"input_ids": ["x"]}, "input_ids: "),
        ("/generate", {"text": "x", "sampling_params": 5}, "sampling_params: Input should be a valid dictionary"),
        ("/generate", {"text": "x", "rid": 5}, "rid: Input should be a valid string"),
        ("/abort_request", {"rid": 5}, "rid: Input should be a valid string"),
        ("/pause_generation", {"mode": "sleep"}, "mode must be abort or in_place here, got 'sleep'"),
        ("/emulator/scripts", {"replies": []}, "session_id must be a string, got None"),
        ("/emulator/scripts", {"session_id": "s", "replies": 5}, "replies must be a list, got 5"),
        ("/emulator/scripts", {"session_id": "s", "replies": [], "match": ""}, "match must be a string that is not"),
        ("/emulator/scripts", {"session_id": "s", "replies": [5]}, r"replies\[0\] must be an object, got 5"),
    ],
)
async def test_a_bad_body_says_what_is_wrong(serve: Any, path: str, body: Any, message: str) -> None:
    answer = await serve().post(path, body)
    assert answer.status == 400
    problem = answer.json()
    assert problem | {"message": "", "type": ""} == {
        "object": "error",
        "message": "",
        "type": "",
        "param": None,
        "code": 400,
    }
    assert problem["type"] in ("BadRequestError", "Bad Request")
    with pytest.raises(ValueError, match=message):
        raise ValueError(problem["message"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "Either text, input_ids or input_embeds should be provided."),
        ({"input_ids": []}, "input_ids cannot be empty."),
        ({"input_ids": [1], "sampling_params": {"max_new_tokens": -1}}, "max_new_tokens must be at least 0, got -1."),
        ({"input_ids": [1], "sampling_params": {"max_new_tokens": "x"}}, "max_new_tokens must be an integer, got 'x'"),
    ],
)
async def test_generate_has_its_own_error_shape(serve: Any, body: Any, message: str) -> None:
    answer = await serve().post("/generate", body)
    assert (answer.status, answer.json()) == (400, {"error": {"message": message}})


async def test_a_body_that_is_no_json_is_refused(serve: Any) -> None:
    headers = {"content-type": "application/json"}
    answer = await serve().call("POST", "/v1/chat/completions", b"{", headers)
    assert (answer.status, answer.json()["type"]) == (400, "Bad Request")


async def test_chat_wants_to_be_told_that_it_is_json(serve: Any) -> None:
    answer = await serve().call("POST", "/v1/chat/completions", json.dumps(chat()).encode(), {})
    assert answer.status == 400
    assert "Unsupported Media Type" in answer.json()["message"]


async def test_unknown_paths_and_methods_answer_as_fastapi_does(serve: Any) -> None:
    client = serve()
    assert (await client.post("/nope")).json() == {"detail": "Not Found"}
    answer = await client.get("/v1/chat/completions")
    assert (answer.status, answer.json()) == (405, {"detail": "Method Not Allowed"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["messages", "max_tokens", "stream", "tools", "rid", "text", "input_ids", "sampling_params", "prompt", "user"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(
    path=st.sampled_from(["/v1/chat/completions", "/v1/completions", "/generate", "/abort_request"]),
    body=st.dictionaries(st.sampled_from(FIELDS), JSON | st.just([USER]), max_size=5),
)
async def test_no_body_breaks_the_server(serve: Any, path: str, body: Any) -> None:
    client = serve()
    assert (await client.post(path, body)).status in (200, 400)
    assert (await client.post("/v1/chat/completions", chat())).status == 200
