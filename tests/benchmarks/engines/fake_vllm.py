"""vLLM's HTTP interface, as far as the benchmarks use it, with a cache of blocks that never fills.

usage: fake_vllm.py PORT
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

BLOCK = 32
METRICS = """\
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="32",num_gpu_blocks="500",enable_prefix_caching="True",engine="0"} 1.0
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="words"} 0.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="words"} 0.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="words"} 0.0
"""


class Handler(BaseHTTPRequestHandler):
    """One server's state is on its class."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[set[tuple[int, ...]]] = set()

    def do_GET(self):
        if self.path == "/health":
            self.answer("")
        elif self.path == "/metrics":
            self.answer(METRICS)
        elif self.path == "/version":
            self.answer(json.dumps({"version": "0.32.0"}))
        elif self.path == "/v1/models":
            self.answer(json.dumps({"data": [{"id": "words", "max_model_len": 8192}]}))
        else:
            self.answer("", 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/reset_prefix_cache":
            self.seen.clear()
            self.answer("")
            return
        asked = json.loads(body)
        assert asked["ignore_eos"]
        prompt, length = asked["prompt"], asked["max_tokens"]
        assert asked["min_tokens"] == length
        cached = max((n for n in range(BLOCK, len(prompt), BLOCK) if tuple(prompt[:n]) in self.seen), default=0)
        ids = [7] * length
        whole = prompt + ids
        self.seen.update(tuple(whole[:n]) for n in range(BLOCK, len(whole) + 1, BLOCK))
        usage = {
            "prompt_tokens": len(prompt),
            "completion_tokens": length,
            "total_tokens": len(whole),
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        head = {"id": "cmpl-1", "object": "text_completion", "created": 0, "model": "words"}
        choice = {"index": 0, "text": " bab" * length, "finish_reason": "length", "logprobs": None}
        if not asked.get("stream"):
            assert asked["return_token_ids"]
            self.answer(json.dumps({**head, "choices": [{**choice, "token_ids": ids}], "usage": usage}))
            return
        chunks = [{**head, "choices": [choice], "usage": None}, {**head, "choices": [], "usage": usage}]
        events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        self.answer(events + "data: [DONE]\n\n", kind="text/event-stream")

    def answer(self, text, status=200, kind="application/json"):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if self.path == "/metrics" else kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def make_server(port: int = 0) -> ThreadingHTTPServer:
    handler = type("Own", (Handler,), {"seen": set()})
    return ThreadingHTTPServer(("127.0.0.1", port), handler)


if __name__ == "__main__":
    make_server(int(sys.argv[1])).serve_forever()
