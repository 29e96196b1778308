"""Records and run folders of known content."""

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.records import AgentRecord, RunFolder, StepRecord, TimelinePoint, append_point
from benchmarks.swebench.sandbox import CommandResult
from benchmarks.swebench.tasks import Task


class FakeModel(BaseChatModel):
    """Generates nothing worth reading, but reports what that cost; may have something to do first."""

    before: object = None
    prompts: list = Field(default_factory=list)

    @property
    def _llm_type(self):
        return "fake"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        raise NotImplementedError

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        if self.before is not None:
            await self.before()
        self.prompts.append(messages)
        details = {"cache_read": 30}
        usage = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107, "input_token_details": details}
        return ChatResult(generations=[ChatGeneration(message=AIMessage("noise", usage_metadata=usage))])


class FakeSandbox:
    def __init__(self, **result):
        self.commands, self.timeouts = [], []
        given = {"exit_code": 0, "output": "a.py\n", "timed_out": False, "truncated": False, "seconds": 0.25}
        self.result = CommandResult(**{**given, **result})

    async def run(self, command, *, timeout):  # noqa: ASYNC109 - a Sandbox
        self.commands.append(command)
        self.timeouts.append(timeout)
        return self.result

    async def changes(self, *, limit):
        return {"state.txt": b"fixed\n"}

    async def close(self):
        pass


@pytest.fixture
def fake_model():
    return FakeModel


@pytest.fixture
def fake_sandbox():
    return FakeSandbox


@pytest.fixture
def make_step():
    def step(prompt=100, cached=0, output=10, **fields):
        tokens = {"prompt_tokens": prompt, "cached_tokens": cached, "output_tokens": output}
        return StepRecord(**{"started_s": 0.0, "wait_s": 0.0, "generation_s": 1.0, **tokens, **fields})

    return step


@pytest.fixture
def make_record(make_step):
    def record(agent_id="001-a", **fields):
        given = {"task_id": "a", "seed": 1, "outcome": "completed", "started_s": 0.0, "ended_s": 2.0}
        return AgentRecord(agent_id=agent_id, **{**given, "steps": (make_step(),), **fields})

    return record


@pytest.fixture
def make_point():
    def point(at_s, **fields):
        given = {"window": None, "seated": 2, "generating": 1, "waiting": 0, "finished": 0}
        return TimelinePoint(at_s=at_s, **{**given, **fields})

    return point


@pytest.fixture
def make_run(tmp_path):
    """A run folder with the given arms: ``{(name, repeat): (records, points, closing)}``."""

    def run(arms, **config):
        names = tuple(dict.fromkeys(name for name, _ in arms))
        about = {
            "benchmark": "swebench",
            "config": RunConfig(arms=names, **config).to_json(),
            "tasks": ["a"],
            "cpus": 2,
            "versions": {},
        }
        folder = RunFolder.create(tmp_path / "run", about)
        for (name, repeat), (records, points, closing) in arms.items():
            arm = folder.arm(name, repeat)
            arm.create()
            for record in records:
                arm.write_agent(record)
            with arm.open_timeline() as stream:
                for point in points:
                    append_point(stream, point)
            if closing is not None:
                arm.write_closing(closing)
        return folder

    return run


@pytest.fixture
def make_task(tmp_path):
    """A task on a workspace with one file, whose test passes when the file says ``fixed``."""

    def task(task_id):
        workspace = tmp_path / "templates" / task_id
        workspace.mkdir(parents=True)
        (workspace / "state.txt").write_text("broken\n")
        packages = tmp_path / "packages"
        packages.mkdir(exist_ok=True)
        return Task(
            task_id=task_id,
            package="tiny",
            problem="state.txt says broken.",
            test_command="grep -q fixed state.txt",
            workspace=workspace,
            packages=packages,
            solution=(),
        )

    return task


@pytest.fixture
def answering():
    """A server that answers every generation with this status and body, and counts; gives its URL."""
    with contextlib.ExitStack() as stack:

        def answering(status, body):
            class Handler(BaseHTTPRequestHandler):
                protocol_version = "HTTP/1.1"

                def setup(self):
                    answering.connections += 1
                    super().setup()

                def do_POST(self):
                    self.rfile.read(int(self.headers.get("Content-Length", 0)))
                    if self.path == "/v1/chat/completions":
                        answering.asked += 1
                        self.answer(status, body)
                    else:
                        self.answer(200 if self.path == "/flush_cache" else 404, b"")

                def do_GET(self):
                    page = answering.pages.get(self.path)
                    self.answer(404 if page is None else 200, (page or "").encode())

                def answer(self, status, body):
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

                def log_message(self, *_):
                    pass

            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        answering.asked = answering.connections = 0
        answering.pages = {}  # what it answers to a GET, by path
        yield answering
