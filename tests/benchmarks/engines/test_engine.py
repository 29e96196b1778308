"""An engine at a URL is asked what it is."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks.engines.emulated import register
from benchmarks.engines.engine import connect
from benchmarks.engines.wire import EngineError

SGLANG = {
    "/server_info": {"version": "0.5.23", "max_total_num_tokens": 1000, "page_size": 1},
    "/v1/models": {"data": [{"id": "tiny"}]},
}


@pytest.fixture
def serve():
    """Serve these answers by path; what is not there is a 404."""
    servers = []

    def start(answers, *, asked=None):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                if asked is not None:
                    asked.append(dict(self.headers))
                body = json.dumps(answers[self.path]).encode() if self.path in answers else b"no"
                self.send_response(200 if self.path in answers else 404)
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                self.do_GET()

            def log_message(self, *args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


async def test_a_url_may_end_in_v1(serve):
    url = serve(SGLANG)
    engine = await connect(f"{url}/v1/")
    assert (engine.url, engine.name, engine.model, engine.capacity_tokens) == (url, "SGLang 0.5.23", "tiny", 1000)
    assert (engine.kind.name, engine.cpu_s()) == ("sglang", None)


async def test_nobody_there_is_told():
    with pytest.raises(EngineError, match=r"no engine answers at http://127\.0\.0\.1:9/.*Is it running"):
        await connect("http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("answers", "complaint"),
    [
        ({}, "neither SGLang's /server_info nor vLLM's /version"),
        ({**SGLANG, "/server_info": {"version": "1"}}, "does not describe itself as SGLang does"),
        ({**SGLANG, "/server_info": []}, "does not describe itself as SGLang does"),
        ({**SGLANG, "/v1/models": {"data": []}}, "names no model"),
        ({"/version": {"version": "0.32.0"}, "/v1/models": {"data": [{"id": "a"}]}}, "as vLLM does"),
    ],
)
async def test_what_is_no_engine_is_refused(serve, answers, complaint):
    with pytest.raises(EngineError, match=complaint):
        await connect(serve(answers))


async def test_one_that_cannot_flush_or_play_scripts_says_so(serve):
    engine = await connect(serve(SGLANG))
    assert not await register(engine, "a", [])
    with pytest.raises(EngineError, match="runs would share a cache"):
        await engine.flush()


async def test_the_key_that_agents_use_is_used_here_too(serve, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    asked = []
    await connect(serve(SGLANG, asked=asked))
    assert {headers["Authorization"] for headers in asked} == {"Bearer secret"}
