import hashlib
import http.server
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from benchmarks.swebench import fetch
from benchmarks.swebench.fetch import Archive, Fetcher, FetchError, pip_settings

DATA = b"the archive"
ARCHIVE = Archive(project="Some.Thing", filename="some_thing-1.0.tar.gz", sha256=hashlib.sha256(DATA).hexdigest())
NOWHERE: Mapping[str, str] = {"no-index": "1"}


class Index(http.server.BaseHTTPRequestHandler):
    """A package index below /simple; /closed wants a password, /broken fails twice before it answers."""

    failures = 2

    def do_GET(self) -> None:
        page = b'<a href="../../files/some_thing-1.0.tar.gz#sha256=0">x</a> <a href="/evil/some_thing-1.0.tar.gz">y</a>'
        start, _, rest = self.path[1:].partition("/")
        if start == "closed" and self.headers.get("Authorization") != "Basic bWU6c2VjcmV0IQ==":
            self.answer(401, b"")
        elif start == "broken" and type(self).failures > 0:
            type(self).failures -= 1
            self.answer(503, b"")
        elif rest == "some-thing/":
            self.answer(200, page)
        elif self.path == "/files/some_thing-1.0.tar.gz":
            self.answer(200, DATA)
        elif start == "evil":
            self.answer(200, b"something else")
        else:
            self.answer(404, b"")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(fetch.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(Index, "failures", 2)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_cached_file_needs_no_network(tmp_path: Path) -> None:
    (tmp_path / ARCHIVE.filename).write_bytes(DATA)
    assert Fetcher(tmp_path, NOWHERE).fetch(ARCHIVE).read_bytes() == DATA


def test_an_index_is_searched_by_the_normalised_name(tmp_path: Path, index: str) -> None:
    fetcher = Fetcher(tmp_path / "cache", {"index-url": f"http://{index}/simple"})
    assert fetcher.fetch(ARCHIVE).read_bytes() == DATA
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [ARCHIVE.filename]


def test_an_index_behind_a_password_and_one_that_fails_at_first_serve_too(tmp_path: Path, index: str) -> None:
    for number, place in enumerate((f"http://me:secret%21@{index}/closed", f"http://{index}/broken")):
        settings = {"index-url": f"http://{index}/absent/x", "extra-index-url": place}
        assert Fetcher(tmp_path / str(number), settings).fetch(ARCHIVE).read_bytes() == DATA


def test_the_wrong_file_in_the_cache_or_elsewhere_is_passed_over(tmp_path: Path, index: str) -> None:
    (tmp_path / ARCHIVE.filename).write_bytes(b"torn")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / ARCHIVE.filename).write_bytes(b"not the same")
    settings = {"find-links": str(tmp_path / "links"), "index-url": f"http://{index}/simple"}
    assert Fetcher(tmp_path, settings).fetch(ARCHIVE).read_bytes() == DATA


@pytest.mark.parametrize("form", ["{}", "file://{}"])
def test_a_folder_of_files_serves(tmp_path: Path, form: str) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / ARCHIVE.filename).write_bytes(DATA)
    settings = {"find-links": form.format(tmp_path / "links"), **NOWHERE}
    assert Fetcher(tmp_path / "cache", settings).fetch(ARCHIVE).read_bytes() == DATA


def test_an_index_of_files_serves(tmp_path: Path) -> None:
    page = tmp_path / "simple" / "some-thing"
    page.mkdir(parents=True)
    (page / "index.html").write_text(f'<a href="../../{ARCHIVE.filename}">x</a>')
    (tmp_path / ARCHIVE.filename).write_bytes(DATA)
    settings = {"index-url": (tmp_path / "simple").as_uri()}
    assert Fetcher(tmp_path / "cache", settings).fetch(ARCHIVE).read_bytes() == DATA


def test_failure_names_the_project_and_each_place_without_its_password(tmp_path: Path, index: str) -> None:
    settings = {
        "find-links": str(tmp_path / "absent"),
        "index-url": f"http://me:wrong@{index}/closed",
        "extra-index-url": f"http://{index}/none/x ftp://x",
    }
    with pytest.raises(FetchError) as caught:
        Fetcher(tmp_path, settings).fetch(ARCHIVE)
    text = str(caught.value)
    assert text.startswith("cannot fetch some_thing-1.0.tar.gz of Some.Thing, and it is not cached: ")
    assert f"http://{index}/closed/some-thing/: HTTP 401" in text
    assert f"http://{index}/none/x/some-thing/: HTTP 404" in text
    assert "no http, https or file address: ftp://x" in text
    assert "wrong" not in text


def test_a_changed_file_says_both_digests(tmp_path: Path, index: str) -> None:
    pinned = Archive(project="some-thing", filename=ARCHIVE.filename, sha256="0" * 64)
    with pytest.raises(FetchError, match=f"sha256 is {ARCHIVE.sha256}, pinned is {'0' * 64}"):
        Fetcher(tmp_path, {"index-url": f"http://{index}/simple"}).fetch(pinned)


def test_pips_own_settings_are_read_the_most_specific_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = http://a/simple\nextra-index-url = http://c\n  http://d\n[download]\nno-index = 1\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_INDEX_URL", "http://b/simple")
    settings = pip_settings()
    assert settings["index-url"] == "http://b/simple"
    assert settings["extra-index-url"].split() == ["http://c", "http://d"]
    assert settings["no-index"] == "1"
