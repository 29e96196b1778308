"""The readers against a real HTTP server that behaves badly."""

from __future__ import annotations

import gzip
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from concur_agents.engines import VLLM, EngineReader, SGLang, client
from concur_agents.errors import EngineReadError, EngineUnreachableError, MetricsError

ENOUGH = 10.0  # s: a reading that should succeed
SHORT = 0.2  # s: one that should not
GOOD = "sglang:token_usage 0.25\nsglang:max_total_num_tokens 100\n"


@pytest.fixture
def reader(server: Any, closing: Callable[[Any], Any]) -> SGLang:
    server.answer("/metrics", GOOD)
    return closing(SGLang(server.url))


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def test_reads_over_one_connection_and_asks_for_plain_text(server, reader) -> None:
    assert [reader.read(ENOUGH).pinned_usage for _ in range(3)] == [0.25] * 3
    assert server.connections == 1
    _, headers = server.seen[0]
    assert headers["Accept"] == "text/plain;version=0.0.4"
    assert headers["Accept-Encoding"] == "identity"
    assert "Authorization" not in headers


def test_readers_are_engine_readers(reader) -> None:
    typed: list[EngineReader] = [reader, VLLM("http://h")]
    assert [repr(each) for each in typed] == [f"SGLang({reader._url.url!r})", "VLLM('http://h')"]


def test_base_path_is_kept_and_v1_is_not(server, closing) -> None:
    server.answer("/engines/a/metrics", GOOD)
    assert closing(SGLang(f"{server.url}/engines/a/v1/")).read(ENOUGH).pinned_usage == 0.25


def test_vllm_reads_through_the_same_door(server, closing, body) -> None:
    server.answer("/metrics", body("vllm_transition"))
    assert closing(VLLM(server.url)).read(ENOUGH).capacity_tokens == 3100
    assert server.paths == ["/metrics"]


# Keys


def test_key_is_sent_as_bearer_and_never_shown(server, closing, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    server.answer("/metrics", "no", status=401)
    reader = closing(SGLang(server.url, api_key="s3cret"))
    with pytest.raises(MetricsError, match="refuses the api_key") as caught:
        reader.read(ENOUGH)
    assert server.seen[0][1]["Authorization"] == "Bearer s3cret"
    assert "s3cret" not in caplog.text + repr(reader) + str(caught.value) + str(vars(reader)["_client"])


@pytest.mark.parametrize("status", [401, 403])
def test_missing_key_is_named(server, reader, status: int) -> None:
    server.answer("/metrics", '{"error":"Unauthorized"}', status=status)
    with pytest.raises(MetricsError, match="pass it as api_key"):
        reader.read(ENOUGH)


@pytest.mark.parametrize("key", ["", "two words", "line\n", "schlüssel"])
def test_unusable_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ValueError, match="api_key") as caught:
        SGLang("http://h", api_key=key)
    assert not key or key not in str(caught.value)


# Answers without metrics


def test_404_names_the_flag(server, reader, closing) -> None:
    server.answer("/metrics", '{"detail":"Not Found"}', status=404)
    with pytest.raises(MetricsError, match=r"404.*--enable-metrics"):
        reader.read(ENOUGH)
    with pytest.raises(MetricsError, match="vLLM"):
        closing(VLLM(server.url)).read(ENOUGH)


@pytest.mark.parametrize(("body", "cause"), [("", "empty"), ("<html></html>", "HTML"), ('{"a":1}', "JSON")])
def test_200_without_metrics_names_the_cause_and_the_server(server, reader, body: str, cause: str) -> None:
    server.answer("/metrics", body)
    with pytest.raises(MetricsError, match=f"^{server.url}: .*{cause}"):
        reader.read(ENOUGH)


@pytest.mark.parametrize("status", [400, 429, 500, 503])
def test_other_error_status_is_unreachable(server, reader, status: int) -> None:
    server.answer("/metrics", "busy", status=status)
    with pytest.raises(EngineUnreachableError, match=f"HTTP {status}"):
        reader.read(ENOUGH)


# Encodings and sizes


def test_gzip_is_unpacked_though_not_asked_for(server, reader) -> None:
    server.answer("/metrics", gzip.compress(GOOD.encode()), headers={"Content-Encoding": "gzip"})
    assert reader.read(ENOUGH).pinned_usage == 0.25


def test_broken_gzip_is_unreachable(server, reader) -> None:
    server.answer("/metrics", b"not gzip", headers={"Content-Encoding": "gzip"})
    with pytest.raises(EngineUnreachableError, match="decode"):
        reader.read(ENOUGH)


def test_bytes_that_are_no_utf8_spoil_only_their_line(server, reader) -> None:
    server.answer("/metrics", b'sglang:num_running_reqs{a="\xff" 1\n' + GOOD.encode())
    sample = reader.read(ENOUGH)
    assert (sample.pinned_usage, sample.running) == (0.25, None)


@pytest.mark.parametrize("packed", [False, True])
def test_huge_body_is_given_up(server, reader, monkeypatch, packed: bool) -> None:
    monkeypatch.setattr(client, "MAX_BODY", 2**20)
    data = GOOD.encode() + b"#" * 2**21
    headers = {"Content-Encoding": "gzip"} if packed else {}
    server.answer("/metrics", gzip.compress(data) if packed else data, headers=headers)
    with pytest.raises(MetricsError, match="larger than 1 MB"):
        reader.read(ENOUGH)
    server.answer("/metrics", GOOD)
    assert reader.read(ENOUGH).pinned_usage == 0.25


def test_chunked_body_is_read_and_a_broken_one_is_lost(server, reader) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = f"{len(GOOD):x}\r\n{GOOD}\r\n".encode()
    server.raw("/metrics", head + chunk + b"0\r\n\r\n")
    assert reader.read(ENOUGH).pinned_usage == 0.25
    server.raw("/metrics", head + chunk)
    with pytest.raises(EngineUnreachableError):
        reader.read(ENOUGH)


def test_body_shorter_than_announced_is_lost(server, reader) -> None:
    server.raw("/metrics", f"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{GOOD}".encode())
    with pytest.raises(EngineUnreachableError):
        reader.read(ENOUGH)


def test_body_that_only_the_connection_ends_must_end_with_a_line(server, reader) -> None:
    server.answer("/metrics", GOOD, framed=False)
    assert reader.read(ENOUGH).pinned_usage == 0.25
    server.answer("/metrics", GOOD + "sglang:num_running_reqs 1", framed=False)
    with pytest.raises(EngineUnreachableError, match="breaks off"):
        reader.read(ENOUGH)


def test_no_http_at_all_is_unreachable(server, reader) -> None:
    server.raw("/metrics", b"SSH-2.0-OpenSSH\r\n")
    with pytest.raises(EngineUnreachableError):
        reader.read(ENOUGH)


def test_https_to_a_plain_server_is_unreachable(server, closing) -> None:
    with pytest.raises(EngineUnreachableError, match=r"(?i)ssl"):
        closing(SGLang(server.url.replace("http:", "https:"))).read(ENOUGH)


# Deadlines


def test_hanging_server_ends_at_the_deadline_and_the_next_reading_works(server, reader) -> None:
    server.hang("/metrics")
    with pytest.raises(EngineUnreachableError, match=r"within 0\.2 s"):
        reader.read(SHORT)
    server.answer("/metrics", GOOD)
    assert reader.read(ENOUGH).pinned_usage == 0.25


@pytest.mark.parametrize(
    ("head", "dripped"),
    [
        (f"HTTP/1.1 200 OK\r\nContent-Length: {len(GOOD) + 999}\r\n\r\n{GOOD}", "#" * 998 + "\n"),
        ("HTTP/1.1 200 OK\r\nX-Slow: ", f"{'x' * 999}\r\nContent-Length: {len(GOOD)}\r\n\r\n{GOOD}"),
        ("", "HTTP/1.1 200 OK\r\n" + "A: b\r\n" * 99 + f"Content-Length: {len(GOOD)}\r\n\r\n{GOOD}"),
    ],
    ids=["body", "header", "everything"],
)
def test_dripping_server_is_cut_off_at_the_deadline(server, reader, head: str, dripped: str) -> None:
    """Undisturbed each would take 20 s, with no single wait over 20 ms, and be a valid reply."""
    server.drip("/metrics", head.encode(), dripped.encode())
    with pytest.raises(EngineUnreachableError, match="no whole reply"):
        reader.read(SHORT)
    assert server.client_left.wait(ENOUGH)  # not only given up: really ended


def test_name_resolution_that_hangs_neither_blocks_nor_piles_up(server, reader, monkeypatch) -> None:
    stuck, calls = threading.Event(), []

    def never(*args: object) -> list[object]:
        calls.append(args)
        stuck.wait(ENOUGH)
        raise socket.gaierror("gave up")

    monkeypatch.setattr(socket, "getaddrinfo", never)
    with pytest.raises(EngineUnreachableError, match="within"):
        reader.read(SHORT)
    with pytest.raises(EngineUnreachableError, match="still hanging"):
        reader.read(SHORT)
    assert len(calls) == 1
    monkeypatch.undo()
    stuck.set()
    assert reader.read(ENOUGH).pinned_usage == 0.25


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_timeout_must_be_positive(reader, timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        reader.read(timeout)


# Threads


def test_second_reading_at_the_same_time_is_refused(server, reader) -> None:
    server.hang("/metrics")
    failures: list[Exception] = []

    def first() -> None:
        try:
            reader.read(ENOUGH)
        except EngineReadError as error:
            failures.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    assert server.arrived.wait(ENOUGH)
    with pytest.raises(EngineReadError, match="already under way"):
        reader.read(ENOUGH)
    server.release.set()
    thread.join()
    assert len(failures) == 1  # the first went on undisturbed, to the end that the server gave it
    server.answer("/metrics", GOOD)
    assert reader.read(ENOUGH).pinned_usage == 0.25


def test_close_ends_a_reading_under_way_and_reading_again_works(server, reader) -> None:
    server.wait_for_hangup("/metrics")
    closer = threading.Thread(target=lambda: (server.arrived.wait(ENOUGH), reader.close()))
    closer.start()
    with pytest.raises(EngineUnreachableError):
        reader.read(ENOUGH * 100)
    closer.join()
    assert server.client_left.wait(ENOUGH)
    server.answer("/metrics", GOOD)
    assert reader.read(ENOUGH).pinned_usage == 0.25


def test_close_twice_and_before_any_reading_is_fine(server) -> None:
    reader = SGLang(server.url)
    reader.close()
    reader.close()


def test_interrupt_ends_the_request_behind_it(server, reader) -> None:
    server.wait_for_hangup("/metrics")
    main = threading.main_thread().ident
    sender = threading.Thread(target=lambda: (server.arrived.wait(ENOUGH), signal.pthread_kill(main, signal.SIGINT)))
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        reader.read(ENOUGH * 100)
    sender.join()
    assert server.client_left.wait(ENOUGH)
    server.answer("/metrics", GOOD)
    assert reader.read(ENOUGH).pinned_usage == 0.25


@pytest.mark.parametrize("begun", [False, True], ids=["before the thread began", "after it sent its request"])
def test_interrupt_while_the_request_is_being_started_ends_it_too(server, reader, monkeypatch, begun: bool) -> None:
    server.wait_for_hangup("/metrics")
    start = threading.Thread.start

    def interrupted(self: threading.Thread) -> None:
        if self.name != "concur-scrape":
            return start(self)
        if begun:
            start(self)
            assert server.arrived.wait(ENOUGH)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader.read(ENOUGH)
    assert server.client_left.wait(ENOUGH) if begun else not server.seen
    server.answer("/metrics", GOOD)
    assert reader.read(ENOUGH).pinned_usage == 0.25


def test_no_thread_to_be_had_is_an_engine_error(reader, monkeypatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(EngineUnreachableError, match="can't start"):
            reader.read(ENOUGH)
    assert reader.read(ENOUGH).pinned_usage == 0.25


# Servers that come and go


def test_refused_until_the_server_appears(start_server, closing) -> None:
    port = free_port()
    reader = closing(SGLang(f"http://127.0.0.1:{port}"))
    with pytest.raises(EngineUnreachableError, match="connection refused"):
        reader.read(ENOUGH)
    start_server(port).answer("/metrics", GOOD)
    assert reader.read(ENOUGH).pinned_usage == 0.25


def test_unknown_host_is_unreachable(closing, monkeypatch) -> None:
    def unknown(*args: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(EngineUnreachableError, match="not known"):
        closing(SGLang("http://nowhere.invalid")).read(ENOUGH)


def test_idle_connection_that_the_server_closed_is_no_failure(server, reader) -> None:
    server.raw("/metrics", f"HTTP/1.1 200 OK\r\nContent-Length: {len(GOOD)}\r\n\r\n{GOOD}".encode())
    assert reader.read(ENOUGH).pinned_usage == 0.25
    server.raw("/metrics", f"HTTP/1.1 200 OK\r\nContent-Length: {len(GOOD)}\r\n\r\n{GOOD}".encode())
    until_closed(reader)
    assert reader.read(ENOUGH).pinned_usage == 0.25
    assert server.connections == 2


def until_closed(reader: SGLang) -> None:
    """Until the end that the server sent has arrived here."""
    sock = reader._client._socket
    deadline = time.monotonic() + ENOUGH
    while sock.recv(1, socket.MSG_PEEK) != b"" and time.monotonic() < deadline:
        pass


def test_client_is_rebuilt_after_three_failures_in_a_row(server, reader, monkeypatch) -> None:
    opened: list[object] = []
    real = client.open_pool
    monkeypatch.setattr(client, "open_pool", lambda *args: opened.append(args) or real(*args))
    for status_line in (b"", b"", b""):
        server.raw("/metrics", status_line)
        with pytest.raises(EngineUnreachableError):
            reader.read(ENOUGH)
    assert len(opened) == 1
    server.answer("/metrics", GOOD)
    reader.read(ENOUGH)
    reader.read(ENOUGH)
    assert len(opened) == 2


def test_success_in_between_keeps_the_client(server, reader, monkeypatch) -> None:
    opened: list[object] = []
    real = client.open_pool
    monkeypatch.setattr(client, "open_pool", lambda *args: opened.append(args) or real(*args))
    for _ in range(3):
        for _ in range(2):
            server.raw("/metrics", b"")
            with pytest.raises(EngineUnreachableError):
                reader.read(ENOUGH)
        server.answer("/metrics", GOOD)
        reader.read(ENOUGH)
    assert len(opened) == 1


# Redirects


def test_redirect_on_the_same_server_is_followed_with_the_key(server, closing) -> None:
    server.answer("/metrics", "", status=307, headers={"Location": "/metrics/"})
    server.answer("/metrics/", GOOD)
    assert closing(SGLang(server.url, api_key="k")).read(ENOUGH).pinned_usage == 0.25
    assert [headers["Authorization"] for _, headers in server.seen] == ["Bearer k"] * 2


def test_redirect_to_another_server_is_refused_and_named(server, start_server, closing) -> None:
    other = start_server()
    other.answer("/metrics", GOOD)
    server.answer("/metrics", "", status=302, headers={"Location": f"{other.url}/metrics"})
    with pytest.raises(MetricsError, match=f"redirects to {other.url}"):
        closing(SGLang(server.url, api_key="k")).read(ENOUGH)
    assert other.seen == []


@pytest.mark.parametrize("location", ["/metrics", "", "http://[", "https://127.0.0.1/metrics"])
def test_redirect_in_a_circle_or_to_nowhere_ends(server, reader, location: str) -> None:
    server.answer("/metrics", "", status=301, headers={"Location": location})
    with pytest.raises(MetricsError, match="redirect"):
        reader.read(ENOUGH)
    assert len(server.seen) <= 3
