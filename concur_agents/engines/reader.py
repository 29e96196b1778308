"""What the readers of all engines with a /metrics page share."""

from __future__ import annotations

import re
import threading
import time
from typing import ClassVar

from concur_agents.engines.client import ConnectionLostError, HttpClient, Reply
from concur_agents.engines.parse import read_sample
from concur_agents.engines.redirects import is_redirect, same_server
from concur_agents.engines.url import engine_url
from concur_agents.errors import EngineReadError, EngineUnreachableError, MetricsError
from concur_agents.samples import EngineSample

__all__ = ["MetricsReader"]

# An OpenMetrics Accept header makes prometheus_client (0.23.1 on) rename samples; compression is not asked for, since
# the engine would pay for it on every poll.
_ACCEPT = "text/plain;version=0.0.4"
# /metrics -> /metrics/ is all that servers do.
_MAX_REDIRECTS = 2
_KEY = re.compile(r"[\x21-\x7e]+")


class MetricsReader:
    """Reads ``/metrics`` of one engine. Thread-safe: a second reading at the same time is refused."""

    no_metrics = "is this the engine's own address?"
    """What to say to a 404."""
    paths: ClassVar[tuple[str, ...]] = ("/metrics",)
    """Where metrics may be, the likeliest first. Who has some there is asked there again."""

    def __init__(self, url: str, *, api_key: str | None = None, rank: int | None = None) -> None:
        """``url`` is the engine's base address; ``api_key`` is sent as Bearer token and never shown.

        With ``rank``, only that data-parallel rank's metrics count, as if it were an engine of its own.

        Raises:
            ValueError: names the parameter and its value (an ``api_key`` without its value).
        """
        self._url = engine_url(url)
        if api_key is not None and not _KEY.fullmatch(api_key):
            raise ValueError("api_key must be visible ASCII characters without spaces or line ends (not shown)")
        self._rank = rank
        self._has_key = api_key is not None
        headers = {"Accept": _ACCEPT}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key}"
        self._client = HttpClient(self._url, headers)
        self._reading = threading.Lock()
        self._last: EngineSample | None = None
        self._order: list[str] = list(self.paths)

    @property
    def url(self) -> str:
        """The engine's base address."""
        return self._url.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._url)!r})"

    def read(self, timeout: float) -> EngineSample:
        """Take one reading within ``timeout`` seconds in all.

        Raises:
            MetricsError: an answer without usable metrics; the message names the likely cause.
            EngineUnreachableError: no whole answer in time, or an HTTP error status.
            EngineReadError: another thread is reading.
            ValueError: ``timeout`` is not above 0.
        """
        if not timeout > 0:
            raise ValueError(f"timeout must be above 0 s, got {timeout!r}")
        deadline = time.monotonic() + timeout
        if not self._reading.acquire(blocking=False):
            raise EngineReadError(f"{self._url}: a reading is already under way")
        try:
            sample = self._scrape(deadline)
            if sample.since(self._last).restarted:
                self._engine_changed()
            self._last = sample
            return self._completed(sample, deadline)
        except ConnectionLostError:
            self._engine_changed()
            raise
        finally:
            self._reading.release()

    def close(self) -> None:
        """Free connections; a reading under way ends. Reading again afterwards opens new ones."""
        self._client.close()

    def _completed(self, sample: EngineSample, deadline: float) -> EngineSample:  # noqa: ARG002 - for subclasses
        """Add what ``/metrics`` does not say. Does not raise, and keeps to the deadline."""
        return sample

    def _engine_changed(self) -> None:
        """Called when another process may be behind the address: drop what was remembered of the old one."""

    def _get(self, path: str, deadline: float) -> Reply:
        """GET a path under the engine's base, following redirects on the same server."""
        path = (self._url.path or "") + path
        for _ in range(_MAX_REDIRECTS + 1):
            left = deadline - time.monotonic()
            if left <= 0:
                raise EngineUnreachableError(f"{self._url}: no time left for {path}")
            reply = self._client.get(path, left)
            if not is_redirect(reply.status):
                return reply
            path = same_server(self._url, path, reply.headers.get("location"))
        raise MetricsError(f"{self._url}: redirects without end")

    def _accepted(self, sample: EngineSample) -> EngineSample | None:
        """The sample as it is to count; None to look elsewhere. May raise MetricsError."""
        return sample

    def _scrape(self, deadline: float) -> EngineSample:
        problem: MetricsError | None = None
        order = list(self._order)
        for path in order:
            try:
                sample = self._scrape_at(path, deadline)
            except (_NoPageError, _NoMetricsError) as error:
                if problem is None or isinstance(problem, _NoPageError):  # what a page says tells more than none
                    problem = error
                continue
            except EngineUnreachableError as error:
                if isinstance(problem, _NoMetricsError):
                    raise MetricsError(str(problem)) from None
                if self._last is None and not isinstance(error, ConnectionLostError):
                    self._order = [*(each for each in order if each != path), path]  # perhaps it never answers there
                raise
            if sample is not None:
                if self._order == order:
                    self._order = [path, *(each for each in order if each != path)]
                return sample
        raise MetricsError(str(problem or f"{self._url}: no metrics of its iterations: {self.no_metrics}"))

    def _scrape_at(self, path: str, deadline: float) -> EngineSample | None:
        reply = self._get(path, deadline)
        if reply.status in (401, 403):
            what = "refuses the api_key it was given" if self._has_key else "needs a key: pass it as api_key"
            raise MetricsError(f"{self._url}: no metrics: the engine {what} (HTTP {reply.status})")
        if reply.status == 404:
            raise _NoPageError(f"{self._url}: no metrics (HTTP 404): {self.no_metrics}")
        if reply.status != 200:
            raise EngineUnreachableError(f"{self._url}: HTTP {reply.status} for {path}")
        try:
            sample = self._accepted(read_sample(reply.text, self._rank))
        except MetricsError as error:
            raise _NoMetricsError(f"{self._url}: {error}") from None
        if not reply.framed and not reply.text.endswith("\n") and not reply.text.lstrip().startswith("["):
            raise ConnectionLostError(f"{self._url}: the reply breaks off in the middle of a line")
        return sample


class _NoPageError(MetricsError):
    """There is nothing at this path."""


class _NoMetricsError(MetricsError):
    """What is there cannot be used."""
