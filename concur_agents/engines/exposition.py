"""A /metrics body -> the few series Concur reads, in the engine's own names, each value checked.

Matching is by whole sample name: other families end or begin the same (``swa_token_usage``, ``*_created`` twins that
hold unix times). The parser is prometheus_client's; this file decides only which lines it is shown. A real SGLang
0.5.23 body is 90 KB in 746 lines, mostly histogram buckets, of which 24 matter: parsing all takes 17 ms, finding and
parsing those 1.2 ms (best of 15, Python 3.11, one small CPU core). Fewer lines also means fewer that could be broken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

__all__ = ["Names", "Point", "Series", "read_series"]

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
# vLLM's cache_config_info, the longest line we read, has 1.5 KB. prometheus_client's label parser is quadratic in a
# line's length, so a line far beyond that is taken as broken instead of hanging the poller.
_MAX_LINE = 16_384


class Point(NamedTuple):
    """One sample line."""

    labels: Mapping[str, str]
    value: float | None
    """None where the engine wrote NaN, Inf, a negative number, or one too large for a float."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What to look for in the body of one engine."""

    engine: str
    prefixes: tuple[str, ...]
    """Spellings of the engine's prefix. Where a family comes in several, only the first listed counts."""
    names: frozenset[str]
    """Whole sample names without their prefix."""


@dataclass(slots=True, kw_only=True)
class Series:
    """What one engine said in one body."""

    names: Names
    whole: bool
    """The body ended with a line end, as the format requires: what is absent is not just cut off."""
    _points: dict[tuple[str, str], list[Point]] = field(default_factory=dict)
    _broken: set[tuple[str, str]] = field(default_factory=set)

    def points(self, name: str) -> list[Point]:
        """All samples of this exact name; none where the family is absent, or has a line that cannot be read."""
        for prefix in self.names.prefixes:
            key = (prefix, name)
            if key in self._points and key not in self._broken:
                return self._points[key]
        return []

    def lacks(self, name: str) -> bool:
        """Whether the body has no line of this name at all, also none that cannot be read or was cut off."""
        keys = {(prefix, name) for prefix in self.names.prefixes}
        return self.whole and not keys & self._points.keys() and not keys & self._broken

    def all_points(self) -> list[Point]:
        """Every sample read, in every spelling."""
        return [point for points in self._points.values() for point in points]

    def filtered(self, wanted: Callable[[Mapping[str, str]], bool]) -> Series:
        """The same with those samples alone whose labels are wanted."""
        points = {key: [each for each in points if wanted(each.labels)] for key, points in self._points.items()}
        return Series(
            names=self.names, whole=self.whole, _points={k: v for k, v in points.items() if v}, _broken=self._broken
        )

    def add(self, prefix: str, name: str, line: str) -> None:
        """Read one sample line of a wanted name."""
        point = _parse(line)
        if point is None:
            self._broken.add((prefix, name))
        else:
            self._points.setdefault((prefix, name), []).append(point)

    def distrust(self, prefix: str, name: str) -> None:
        """Take the family as unreadable: some of its lines may be missing."""
        self._broken.add((prefix, name))


def read_series(text: str, engines: tuple[Names, ...]) -> Series | None:
    """Collect the first of ``engines`` that the body speaks of, or None when it speaks of none of them.

    A body cut off in the middle of a line keeps its whole lines, except those of a family the cut-off line may
    belong to: with a series missing, its sums would be too small.
    """
    whole = text.endswith("\n")
    wanted = {
        prefix + name: (names, prefix, name) for names in engines for prefix in names.prefixes for name in names.names
    }
    found: dict[str, Series] = {}
    last: tuple[str, tuple[Names, str, str]] | None = None
    lines = text.split("\n")  # not splitlines(): a label's value may hold its exotic line ends
    for line in lines:
        match = _NAME.match(line := line.strip())
        key = wanted.get(match[0]) if match else None
        if match and key:
            names, prefix, name = key
            series = found.setdefault(names.engine, Series(names=names, whole=whole))
            series.add(prefix, name, line)
            last = (match[0], key)
    # A last line that is only the beginning of a name: it may have been one more of the series before it.
    if not whole and last and (tail := lines[-1].strip()) and last[0] != tail and last[0].startswith(tail):
        names, prefix, name = last[1]
        found[names.engine].distrust(prefix, name)
    for names in engines:
        if names.engine in found:
            return found[names.engine]
    for names in engines:  # it speaks of the engine, if of nothing we read: just started, perhaps
        if any(_parse(line) for line in lines if line.startswith(names.prefixes)):
            return Series(names=names, whole=whole)
    return None


def _parse(line: str) -> Point | None:
    if len(line) > _MAX_LINE or line.endswith("."):  # no engine ends a number so: this one was cut off
        return None
    try:
        (sample,) = (sample for family in text_string_to_metric_families(line) for sample in family.samples)
    except (ValueError, IndexError):  # what the parser raises on garbage
        return None
    return Point(sample.labels, _usable(sample.value))


def _usable(value: float) -> float | None:
    try:
        number = float(value)  # the parser keeps whole numbers as int, of any size
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
