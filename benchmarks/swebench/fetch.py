"""Fetches one pinned file of one project from wherever this machine's pip would look for it.

``pip download`` itself cannot serve: for a source archive it installs the project's build tools and runs its build
script just to learn its metadata. So pip is asked only for its settings (index, mirrors, local folders, certificate),
and the file's SHA-256, which is committed with the task, decides whether what came is what was meant.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import logging
import re
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

__all__ = ["Archive", "FetchError", "Fetcher", "pip_settings"]

logger = logging.getLogger(__name__)

PYPI = "https://pypi.org/simple"
TIMEOUT_S = 60.0
"""For each read from the network; the largest file here has 1 MB."""
ATTEMPTS = 3
MAX_BYTES = 64 * 1024 * 1024
"""Twenty times the largest file and index page here: what stops a server that never stops."""


class FetchError(Exception):
    """A file is neither cached nor to be had. The message names the project and says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """One file on the index, pinned."""

    project: str
    filename: str
    sha256: str


class Fetcher:
    """Gives files by :class:`Archive`, from a folder or, when they are not in it, from the places pip would look in.

    Args:
        folder: where fetched files are kept; made when missing.
        settings: in the form of :func:`pip_settings`, which is asked at the first file that is missing if None.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._folder = folder
        self._settings = settings
        self._source: _Source | None = None

    def fetch(self, archive: Archive) -> Path:
        """The file's path; no network when it is there and is the pinned one.

        Raises:
            FetchError: not there and not found, unreachable, or not the file that was pinned.
        """
        path = self._folder / archive.filename
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == archive.sha256:
            return path
        logger.info("fetching %s", archive.filename)
        if self._source is None:
            self._source = _Source(pip_settings() if self._settings is None else self._settings)
        data = self._source.find(archive)
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix=f".{archive.filename}-", delete=False) as part:
            part.write(data)
        Path(part.name).replace(path)  # whole or absent, also when two runs fetch at once
        return path


def pip_settings() -> dict[str, str]:
    """What pip is configured with, by its files and the environment, most specific last; empty without a pip."""
    listing = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    found: dict[str, dict[str, str]] = {"global": {}, "download": {}, ":env:": {}}
    for line in listing.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in found:
            found[section][key] = str(ast.literal_eval(value))
    return {**found["global"], **found["download"], **found[":env:"]}


class _Source:
    """The places pip is configured with."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._links = settings.get("find-links", "").split()
        indexes = [settings.get("index-url", PYPI), *settings.get("extra-index-url", "").split()]
        self._indexes = [] if settings.get("no-index", "").lower() in {"1", "true", "yes", "on"} else indexes
        context = ssl.create_default_context(cafile=settings.get("cert"))
        proxies = {"http": settings["proxy"], "https": settings["proxy"]} if settings.get("proxy") else None
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler(proxies)
        )

    def find(self, archive: Archive) -> bytes:
        """The archive's bytes. Raises FetchError."""
        problems: list[str] = []
        for url in self._candidates(archive, problems):
            try:
                data = self._get(url)
            except OSError as error:
                problems.append(f"{_shown(url)}: {error}")
                continue
            if (got := hashlib.sha256(data).hexdigest()) == archive.sha256:
                return data
            problems.append(f"{_shown(url)}: sha256 is {got}, pinned is {archive.sha256}")
        raise FetchError(
            f"cannot fetch {archive.filename} of {archive.project}, and it is not cached: "
            + ("; ".join(problems) or "no place that pip is configured with has it")
        )

    def _candidates(self, archive: Archive, problems: list[str]) -> Iterator[str]:
        """URLs of files with the archive's name, in pip's places; pages that cannot be read become problems."""
        name = re.sub(r"[-_.]+", "-", archive.project).lower()
        pages = list(self._links)
        for place in self._links:
            if (folder := Path(place.removeprefix("file://"))).is_dir():
                pages.remove(place)
                if (folder / archive.filename).is_file():
                    yield (folder / archive.filename).resolve().as_uri()
        for page in [*pages, *(f"{index.rstrip('/')}/{name}/" for index in self._indexes)]:
            # A file: index is a folder of folders, each with its page.
            address = f"{page}index.html" if page.startswith("file:") and page.endswith("/") else page
            try:
                text = self._get(address).decode(errors="replace")
            except OSError as error:
                problems.append(f"{_shown(page)}: {error}")
                continue
            for link in _links(text):
                url = urllib.parse.urljoin(address, link)
                if urllib.parse.unquote(urllib.parse.urlsplit(url).path).endswith("/" + archive.filename):
                    yield url

    def _get(self, url: str) -> bytes:
        """The body at an http(s) or file URL. Raises OSError after a few tries."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in {"http", "https", "file"}:
            raise OSError(f"no http, https or file address: {_shown(url)}")
        request = urllib.request.Request(  # noqa: S310 - the scheme was checked
            parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl(),
            headers={"Accept": "application/vnd.pypi.simple.v1+html, text/html;q=0.9, */*;q=0.1"},
        )
        if parts.username is not None:
            pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._opener.open(request, timeout=TIMEOUT_S) as reply:
                    return bytes(reply.read(MAX_BYTES))
            except urllib.error.HTTPError as error:
                error.close()
                if error.code < 500 or attempt == ATTEMPTS:
                    raise OSError(f"HTTP {error.code}") from None
            except OSError:
                if parts.scheme == "file" or attempt == ATTEMPTS:
                    raise
            time.sleep(attempt)
        raise AssertionError("unreachable")


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.found += [value for name, value in attrs if name == "href" and value]


def _links(page: str) -> list[str]:
    parser = _Links()
    parser.feed(page)
    return parser.found


def _shown(url: str) -> str:
    """The URL without name and password, for messages."""
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
