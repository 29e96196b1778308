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
from benchmarks.swebench.engine import open_engine
from benchmarks.swebench.planning import plan_agents
from benchmarks.swebench.progress import LineProgress, TimeLeft
from benchmarks.swebench.proxy import Proxy, read_proxy
from benchmarks.swebench.records import RunFolder
from benchmarks.swebench.runner import run_arms
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


# Takes what reaches it to the engine, and remembers whose it was. Takes chats, or completions of token ids.
PROGRAM = """
import json, sys, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

engine, port, seen = sys.argv[1:]

def post(path, body, headers):
    request = urllib.request.Request(engine + path, json.dumps(body).encode(), headers)
    return urllib.request.urlopen(request).read()

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(b"words" if self.path == "/ready" else b"")

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open(seen, "a") as stream:
            print(self.path, self.headers["x-whose"], file=stream)
        headers = {name: self.headers[name] for name in ("Content-Type", "X-Session-ID") if name in self.headers}
        if self.path != "/v1/completions":
            return self.answer(post(self.path, body, headers))
        sampling = {"max_new_tokens": body["max_tokens"], "ignore_eos": body["ignore_eos"]}
        told = post("/generate", {"input_ids": body["prompt"], "sampling_params": sampling}, headers)
        meta = json.loads(told)["meta_info"]
        usage = {name: meta[name] for name in ("prompt_tokens", "completion_tokens")}
        usage["prompt_tokens_details"] = {"cached_tokens": meta["cached_tokens"]}
        self.answer(json.dumps({"choices": [{"finish_reason": "length"}], "usage": usage}).encode())

    def answer(self, data):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass

ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
"""
STARTED = """
url = "http://127.0.0.1:{{port}}"
headers = {{ x-whose = "{{agent}}" }}
[start]
command = ["{{python}}", "{program}", "{{engine}}", "{{port}}", "{seen}"]
takes = "{takes}"
ready = "/ready"
says = "words"
"""


@pytest.mark.parametrize("takes", ["chats", "tokens"])
async def test_a_proxy_is_started_for_its_arm_before_the_engine_or_behind_a_front(emulator, tmp_path, takes):
    (tmp_path / "proxy.py").write_text(PROGRAM)
    file, seen = tmp_path / "proxy.toml", tmp_path / "seen"
    file.write_text(STARTED.format(program=tmp_path / "proxy.py", seen=seen, takes=takes))
    steps = [{"p": 200, "o": 30}, {"p": 400, "o": 30}]
    (tmp_path / "r.jsonl").write_text("\n".join(json.dumps({"id": f"s{n}", "steps": steps}) for n in range(2)))
    config = RunConfig(
        agents=2,
        arms=("uncontrolled", f"proxy:{file}"),
        engine=emulator.url,
        recordings=str(tmp_path / "r.jsonl"),
        characters_per_token=4 if takes == "tokens" else 0,
    )
    plans = plan_agents(config, load_recorded(tmp_path / "r.jsonl"))
    folder = RunFolder.create(tmp_path / "run", {"config": config.to_json(), "tasks": ["s0", "s1"]})
    with (tmp_path / "out").open("w") as stream:
        await run_arms(config, plans, folder, LineProgress(Console(file=stream), TimeLeft(2)))
    plain, through = ({agent.agent_id: agent for agent in folder.arm(arm, 1).agents()} for arm in config.arms)
    agents = set(plain)
    assert {agent.outcome for agent in (*plain.values(), *through.values())} == {"completed"}
    path = {"chats": "/v1/chat/completions", "tokens": "/v1/completions"}[takes]
    assert {tuple(line.split()) for line in seen.read_text().splitlines()} == {
        (path, name) for name in (*agents, "warm-up")
    }
    for name in agents:  # the same work as without, and nothing of a conversation is lost on the way
        pairs = list(zip(plain[name].steps, through[name].steps, strict=True))
        assert all(one.prompt_tokens == other.prompt_tokens for one, other in pairs)
        assert through[name].steps[1].cached_tokens >= sum(
            (through[name].steps[0].prompt_tokens, through[name].steps[0].output_tokens, -1)
        )


async def test_a_proxy_of_token_ids_needs_a_front(emulator, tmp_path):
    (tmp_path / "proxy.toml").write_text(STARTED.format(program="none.py", seen="none", takes="tokens"))
    (arm,) = parse_arms(f"proxy:{tmp_path / 'proxy.toml'}")
    with pytest.raises(EngineError, match="needs a front: set characters_per_token"):
        async with open_engine(RunConfig(engine=emulator.url), tmp_path / "log", arm.needs):
            pass


async def test_a_proxy_that_does_not_start_is_an_engine_error_with_its_last_words(emulator, tmp_path):
    (tmp_path / "proxy.py").write_text("raise SystemExit('no such flag')")
    file = tmp_path / "proxy.toml"
    file.write_text(STARTED.format(program=tmp_path / "proxy.py", seen="none", takes="chats"))
    (arm,) = parse_arms(f"proxy:{file}")
    with pytest.raises(EngineError, match="no such flag"):
        async with open_engine(RunConfig(engine=emulator.url), tmp_path / "log", arm.needs):
            pass


def test_a_proxy_to_start_has_a_port_and_goes_with_host_memory_and_caps(tmp_path):
    file = tmp_path / "proxy.toml"
    file.write_text(STARTED.format(program="p.py", seen="none", takes="chats"))
    (arm,) = parse_arms(f"hicache:proxy:{file}")
    assert arm.proxy.url == f"http://127.0.0.1:{arm.needs.proxy.port}"
    assert (arm.needs.host_cache, hash(arm.needs)) == (2.0, hash(arm.needs))


def test_the_file_for_dynamos_router_says_how_agents_are_known_and_let_go():
    proxy = parse_arms("proxy:thunderagent")[0].proxy
    assert proxy.headers_of("7") == {"x-dynamo-session-id": "7"}
    assert proxy.release.headers == {"x-dynamo-session-id": "{agent}", "x-dynamo-session-final": "true"}
    assert proxy.start.behind_front


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
        ('url = "http://x"\n[start]\ncommand = ["p"]', r"proxy.toml: url: must have \{port\} in it"),
        ('url = "http://x:{port}"\n[start]\ncommand = []', r"proxy.toml: start\.command: "),
        ('url = "http://x"\nstart = "now"', "proxy.toml: start: "),
        ('url = "http://x"\n[release]\npath = "end"', r"proxy.toml: release\.path: "),
    ],
)
def test_a_file_that_is_wrong_is_told_by_field(tmp_path, text, complaint):
    (tmp_path / "proxy.toml").write_text(text)
    with pytest.raises(ValueError, match=complaint):
        read_proxy(tmp_path / "proxy.toml")
    with pytest.raises(ValueError, match=f"arm 'proxy:.*{complaint}"):
        parse_arms(f"proxy:{tmp_path / 'proxy.toml'}")
