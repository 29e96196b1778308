"""Reader for SGLang."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import ClassVar

from concur_agents.engines.capacity import CapacityProbe
from concur_agents.engines.reader import MetricsReader
from concur_agents.samples import EngineSample

__all__ = ["SGLang"]

_log = logging.getLogger(__name__)

# With less left of the deadline the pool's size is not asked for: it could not be answered (/server_info takes about
# 0.1 s on a small CPU machine), and it is not urgent.
_MIN_TIME = 0.05


class SGLang(MetricsReader):
    """Reads an SGLang server started with ``--enable-metrics`` (0.3.6 to 0.5.23).

    Where the address is that of SGLang's model gateway (sglang-router), its ``/engine_metrics`` are read: those of all
    its workers.

    Where ``/metrics`` does not give the KV pool's size, ``/server_info`` and ``/get_server_info`` are asked: once, and
    again after the engine restarted (a counter went down, or the connection was lost).
    """

    no_metrics = "start SGLang with --enable-metrics"
    paths: ClassVar[tuple[str, ...]] = ("/metrics", "/engine_metrics")

    def __init__(self, url: str, *, api_key: str | None = None, rank: int | None = None) -> None:
        """``url`` like ``http://127.0.0.1:30000``, with or without ``/v1``; ``api_key`` is the server's, if it has one.

        With ``rank``, only that data-parallel rank is read.

        Raises:
            ValueError: names the parameter and its value (an ``api_key`` without its value).
        """
        super().__init__(url, api_key=api_key, rank=rank)
        self._capacity = CapacityProbe()
        self._warned = False

    def _engine_changed(self) -> None:
        self._capacity.forget()

    def _completed(self, sample: EngineSample, deadline: float) -> EngineSample:
        if sample.capacity_tokens is not None or deadline - time.monotonic() < _MIN_TIME:
            return sample
        info = self._capacity.ask(lambda path: self._get(path, deadline))
        if self._rank is not None:
            return replace(sample, capacity_tokens=None if info.tokens is None else info.tokens // info.ranks)
        if len(sample.rank_usages) > info.ranks:
            return sample  # a router's: it was one of its workers that answered, for itself
        if info.ranks > 1 and len(sample.rank_usages) == 1 and not self._warned:
            self._warned = True
            _log.warning(
                "%s: SGLang has %d data-parallel ranks but this version's metrics do not tell them apart: "
                "usages and counts are those of one rank",
                self._url,
                info.ranks,
            )
        return replace(sample, capacity_tokens=info.tokens)
