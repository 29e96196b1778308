"""An arm through a proxy: every request says whose it is, and the proxy hears of each agent's end."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import urllib3
from rich.console import Console

from benchmarks.engines.wire import EngineError
from benchmarks.swebench.arms import parse_arms
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.progress import LineProgress, TimeLeft
from benchmarks.swebench.proxy import Proxy, read_proxy
from benchmarks.swebench.records import RunFolder
from benchmarks.swebench.runner import plan_agents, run_arms
from benchmarks.swebench.tasks import load_recorded
from concur_agents.emulator import Emulator, ServiceConfig

FILE = """
url = "{url}"
headers = {{ x-session = "{{agent}}" }}
body = {{ program_id = "{{agent}}" }}
[release]
path = "/programs/release"
body = {{ program_id = "{{agent}}" }}
"""


@pytest.fixture
def emulator():
    with Emulator(ServiceConfig.preset("laptop", speedup=200.0)) as emulator:
        yield emulator


@pytest.fixture
def before(emulator):
    """A proxy before the emulator that remembers what it was sent; as (url, seen)."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append((self.path, self.headers.get("x-session"), body))
            status, reply = 200, b"{}"
            if self.path.startswith("/v1/"):
                kept = {name: self.headers[name] for name in ("Content-Type", "X-Session-ID") if name in self.headers}
                answer = urllib3.request("POST", emulator.url + self.path, body=json.dumps(body), headers=kept)
                status, reply = answer.status, answer.data
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


async def test_requests_say_whose_they_are_and_ends_are_told(before, emulator, tmp_path):
    url, seen = before
    (tmp_path / "thunder.toml").write_text(FILE.format(url=url))
    steps = [{"p": 20, "o": 3}, {"p": 40, "o": 3}]
    (tmp_path / "r.jsonl").write_text("\n".join(json.dumps({"id": f"s{n}", "steps": steps}) for n in range(2)))
    arm = f"proxy:{tmp_path / 'thunder.toml'}"
    config = RunConfig(agents=2, arms=(arm,), engine=emulator.url, recordings=str(tmp_path / "r.jsonl"))
    plans = plan_agents(config, load_recorded(tmp_path / "r.jsonl"))
    folder = RunFolder.create(tmp_path / "run", {"config": config.to_json(), "tasks": ["s0", "s1"]})
    with (tmp_path / "out").open("w") as stream:
        await run_arms(config, plans, folder, LineProgress(Console(file=stream), TimeLeft(1)))
    assert [record.outcome for record in folder.arm(arm, 1).agents()] == ["completed"] * 2
    agents = {plan.agent_id for plan in plans} | {"warm-up"}
    chats = [(session, body["program_id"]) for path, session, body in seen if path == "/v1/chat/completions"]
    assert len(chats) == 2 * 3
    assert {session for session, _ in chats} == agents
    assert all(session == program for session, program in chats)
    released = [body["program_id"] for path, _, body in seen if path == "/programs/release"]
    assert sorted(released) == sorted(agents)


async def test_a_release_that_is_refused_is_an_engine_error(before):
    url, _ = before
    proxy = Proxy.model_validate({"url": url, "release": {"path": "/v1/{agent}", "body": {"a": ["{agent}", 1]}}})
    with pytest.raises(EngineError, match="/v1/x answered 4"):
        await proxy.ended("x")
    await Proxy(url=url).ended("x")  # one that is told nothing


def test_what_is_sent_names_the_agent_everywhere():
    proxy = Proxy(url="http://p", headers={"a": "x-{agent}"}, body={"n": {"deep": ["{agent}", 1]}, "k": True})
    assert proxy.headers_of("7") == {"a": "x-7"}
    assert proxy.body_of("7") == {"n": {"deep": ["7", 1]}, "k": True}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("url = ", "cannot read .*proxy.toml"),
        ("", "proxy.toml: url: Field required"),
        ('url = "ftp://x"', "proxy.toml: url: "),
        ('url = "http://x"\nheader = "a"', "proxy.toml: header: Extra inputs"),
        ('url = "http://x"\n[release]\npath = "end"', r"proxy.toml: release\.path: "),
    ],
)
def test_a_file_that_is_wrong_is_told_by_field(tmp_path, text, complaint):
    (tmp_path / "proxy.toml").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        read_proxy(tmp_path / "proxy.toml")
    with pytest.raises(ValueError, match=f"arm 'proxy:.*{complaint}"):
        parse_arms(f"proxy:{tmp_path / 'proxy.toml'}")
