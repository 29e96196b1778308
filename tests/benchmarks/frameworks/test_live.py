"""A model that decides for itself, in every framework: however badly it does, its agent's end is recorded."""

import json
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks.engines.emulated import register
from benchmarks.engines.engine import connect
from benchmarks.swebench.agents import AgentPlan, Recorder, find_framework, run_agent
from benchmarks.swebench.config import RunConfig
from concur_agents import Controller, Uncontrolled
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents.testing import ScriptedReader


def says(content="I look.", *calls, **more):
    tool_calls = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return {"content": content, "tool_calls": tool_calls} | more


LOOK = says("I look.", ("bash", {"command": "ls"}))
DONE = says("Done.")


@pytest.fixture(scope="module")
def emulator():
    """A model with a short context, that says what its script says."""
    config = ServiceConfig.preset("laptop", speedup=200.0)
    short = replace(config, engine=replace(config.engine, context_length=6000, max_total_tokens=100_000))
    with Emulator(short) as emulator:
        yield emulator


@pytest.fixture
def answering():
    """A server that answers every request with this status and body; gives its URL."""
    servers = []

    def answering(status, body):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}"

    yield answering
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def commands():
    return []


@pytest.fixture
def live(framework, make_task, sandbox, commands):
    """One agent whose model is at ``url``."""

    class Listening(sandbox):
        async def run(self, command, *, timeout):  # noqa: ASYNC109 - a Sandbox
            commands.append(command)
            return await super().run(command, timeout=timeout)

    async def live(url, name="m", **config):
        given = {"replies": "model", "engine": "http://engine", "max_output_tokens": 500, "framework": framework}
        config = RunConfig(**{**given, **config})
        plan = AgentPlan("001-a", make_task("a"), 1)
        with Controller(ScriptedReader(), law=Uncontrolled(), background=False) as controller:
            async with find_framework(framework).open_model(url, name) as model:
                recorder = Recorder(plan, time.monotonic, config)
                record = await run_agent(
                    recorder, model=model, controller=controller, sandbox=Listening(), replies=None, config=config
                )
                assert not controller.agents()  # whatever its end was, it is known to Concur no more
                return record

    return live


@pytest.fixture
def say(live, emulator):
    """One agent whose model says this, reply by reply."""

    async def say(*replies, **config):
        engine = await connect(emulator.url)
        await register(engine, "001-a", replies)
        return await live(engine.url, engine.model, **config)

    return say


async def test_a_model_calls_both_tools(say, commands):
    edit = says("", ("edit", {"path": "state.txt", "old": "broken", "new": "fixed"}))
    record = await say(LOOK, edit, DONE)
    assert (record.outcome, record.error, record.commands, len(record.steps)) == ("completed", None, 2, 3)
    assert commands[0] == "ls"
    assert "Path('state.txt'), 'broken', 'fixed'" in commands[1]
    assert all(step.prompt_tokens and step.wait_s is not None for step in record.steps)


@pytest.mark.parametrize("content", ["It works for me.", "", " \n"])
async def test_a_reply_without_a_call_ends_the_agent(say, content):
    record = await say(says(content))
    assert (record.outcome, record.error, record.commands, len(record.steps)) == ("completed", None, 0, 1)


@pytest.mark.parametrize("arguments", ["ls", '["ls"]', '"ls"', "3", "null", ""])
async def test_arguments_that_are_no_object_run_nothing_and_end_in_a_record(say, commands, arguments):
    record = await say(says("I look.", ("bash", arguments)), DONE)
    assert record.outcome in ("completed", "failed")
    assert (record.by_concur, commands) == (False, [])


async def test_a_call_that_no_tool_takes_is_answered_and_the_agent_goes_on(say, commands):
    record = await say(says("", ("python", {"code": "1"})), says("", ("bash", {"cmd": "ls"})), LOOK, DONE)
    assert (record.outcome, record.error, len(record.steps)) == ("completed", None, 4)
    assert commands == ["ls"]


async def test_many_calls_of_one_reply_all_run(say, commands):
    record = await say(says("", *[("bash", {"command": f"echo {number}"}) for number in range(12)]), DONE)
    assert (record.outcome, sorted(commands)) == ("completed", sorted(f"echo {number}" for number in range(12)))


async def test_a_model_that_calls_for_ever_is_stopped(say):
    record = await say(*[LOOK] * 9, max_steps=4)
    assert (record.outcome, len(record.steps)) == ("failed", 4)
    assert record.error.startswith("StepLimitError: ")


async def test_a_reply_without_end_is_cut(say):
    record = await say(says("again " * 500, output_tokens=900), max_output_tokens=50)
    assert (record.outcome, [step.output_tokens for step in record.steps]) == ("completed", [50])


async def test_a_full_context_ends_its_agent_by_name(say):
    shout = says("I look. " * 300, ("bash", {"command": "ls"}))
    record = await say(*[shout] * 20, max_output_tokens=900)
    assert (record.outcome, record.by_concur) == ("failed", False)
    assert record.error.startswith("ContextFullError: ")


@pytest.mark.parametrize(("status", "refused"), [(400, True), (404, True), (429, False), (500, False)])
async def test_a_refusal_is_told_from_a_failure_that_may_pass(live, answering, status, refused):
    record = await live(answering(status, b'{"error": {"message": "no"}}'))
    assert (record.outcome, record.by_concur) == ("failed", False)
    assert record.error.startswith("RefusedError: ") is refused


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b"null", b"{}", b'{"choices": []}'])
async def test_a_broken_reply_ends_in_a_record(live, answering, body):
    record = await live(answering(200, body))
    assert record.outcome in ("completed", "failed")
    assert (record.by_concur, record.commands) == (False, 0)


async def test_an_empty_reply_ends_in_a_record(live, answering):
    message = {"role": "assistant", "content": None}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "length"}]}).encode()
    record = await live(answering(200, body))
    assert record.outcome in ("completed", "failed")
    assert (record.by_concur, record.commands, len(record.steps)) == (False, 0, 1)
