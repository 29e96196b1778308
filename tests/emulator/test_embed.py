"""The embedded server over real sockets, with the real OpenAI client."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest
import urllib3

from concur_agents.emulator import Emulator, ServiceConfig

ASK: Any = [{"role": "user", "content": "Look around."}]
TOOLS: Any = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]
SCRIPT = {
    "session_id": "s",
    "replies": [
        {"content": "Let me see.", "tool_calls": [{"name": "bash", "arguments": {"cmd": "ls"}}]},
        {"content": "All done.", "output_tokens": 30},
    ],
}


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    with Emulator(ServiceConfig.preset("laptop", speedup=1000)) as running:
        response = urllib3.request("POST", running.url + "/emulator/scripts", json=SCRIPT, timeout=30)
        assert response.status == 200
        yield running


@pytest.fixture
def client(emulator: Emulator) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=emulator.url + "/v1", api_key="none", max_retries=0) as made:
        yield made


def test_the_openai_client_sees_a_scripted_agent_through(client: Any) -> None:
    headers = {"X-Session-ID": "s"}
    first = client.chat.completions.create(model="m", messages=ASK, tools=TOOLS, extra_headers=headers)
    call = first.choices[0].message.tool_calls[0]
    assert (first.choices[0].finish_reason, call.function.arguments) == ("tool_calls", '{"cmd": "ls"}')
    after = [*ASK, first.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "a.txt"}]
    second = client.chat.completions.create(model="m", messages=after, tools=TOOLS, extra_headers=headers)
    assert (second.choices[0].finish_reason, second.choices[0].message.content) == ("stop", "All done.")
    assert second.usage.prompt_tokens_details.cached_tokens == first.usage.total_tokens - 1


def test_the_openai_client_assembles_a_stream(client: openai.OpenAI) -> None:
    manager = client.chat.completions.stream(model="m", messages=ASK, tools=TOOLS, user="s")
    with manager as stream:
        reply = stream.get_final_completion()
    message = reply.choices[0].message
    assert message.content == "Let me see."
    assert message.tool_calls is not None
    assert message.tool_calls[0].function.arguments == '{"cmd": "ls"}'


def test_an_error_reaches_the_openai_client_as_its_own(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="is longer than the model's context length"):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x" * 200_000}])


def test_the_port_is_known_and_taken_before_the_server_runs() -> None:
    with Emulator() as one, socket.socket() as other:
        assert one.url == f"http://127.0.0.1:{one.port}"
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", one.port))


def test_a_port_in_use_is_an_error_that_leaves_nothing_behind() -> None:
    with Emulator() as one, pytest.raises(OSError, match="in use"):
        Emulator(port=one.port)


def test_leaving_ends_requests_that_still_run() -> None:
    replies: list[int] = []
    with Emulator(ServiceConfig.preset("laptop")) as emulator:
        body = {"text": "hi", "sampling_params": {"max_new_tokens": 5000, "ignore_eos": True}}

        def ask() -> None:
            replies.append(urllib3.request("POST", emulator.url + "/generate", json=body, timeout=30).status)

        asking = threading.Thread(target=ask)
        asking.start()
        for _ in range(10_000):
            if urllib3.request("GET", emulator.url + "/v1/loads", timeout=30).json()["loads"][0]["num_running_reqs"]:
                break
    asking.join()
    assert replies == [200]


def test_the_core_needs_neither_starlette_nor_uvicorn() -> None:
    code = (
        "import sys; sys.modules |= dict.fromkeys(['starlette', 'uvicorn', 'typer'])\n"
        "from concur_agents.emulator import Scheduler, ServiceConfig, Emulator\n"
        "Scheduler(ServiceConfig().engine, ServiceConfig().cost).step()\n"
        "try: Emulator()\nexcept ImportError as problem: print(problem)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'concur-agents[emulator]'" in done.stdout
