"""The record as Markdown tables, with what they were measured on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.gateway.arms import DIRECT, PEER

__all__ = ["NOISY", "clients", "markdown", "soaks"]

NOISY = 0.05
"""Share of all cores that others used, above which a repeat is doubted."""

_Repeat = Mapping[str, Any]


def markdown(record: Mapping[str, Any]) -> str:
    """Tables and notes, with a newline at the end."""
    return "\n".join(_lines(record)) + "\n"


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    arms, settings = record["arms"], record["settings"]
    direct, peer = arms[DIRECT]["repeats"], arms[PEER]["repeats"]
    yield (
        "| in front of the engine | added ms, p50 | added ms, p99 | requests/s of direct | of the stand-in "
        "| CPU us a request | streams whole | their time of direct |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for key, arm in arms.items():
        runs = arm["repeats"]
        cells = (
            "" if key == DIRECT else _spread(_added(runs, direct, "p50_ms")),
            "" if key == DIRECT else _spread(_added(runs, direct, "p99_ms")),
            _spread(_ratios(runs, direct, _per_s)),
            _spread(_ratios(runs, peer, _per_s)),
            "" if key == DIRECT else _spread([run["many"]["cpu_us"] for run in runs]),
            _whole(runs),
            _spread(_ratios(runs, direct, _streams_s)),
        )
        yield f"| {arm['title']} | " + " | ".join(cells) + " |"
    yield ""
    yield from _notes(record)
    if record.get("soak"):
        yield ""
        yield from soaks(record["soak"])
    if record.get("clients"):
        yield ""
        yield from clients(record["clients"], settings)


def _notes(record: Mapping[str, Any]) -> Iterator[str]:
    settings, found, machine = record["settings"], record["versions"], record["machine"]
    count = settings["repeats"]
    repeats = "One repeat" if count == 1 else f"Medians (lowest..highest) of {count} repeats"
    yield (
        f"- {repeats} of {settings['seconds']:g} s for each load, in which the rows took turns; differences and ratios "
        f"within each repeat. Added: on one connection. Requests a second: on {settings['connections']}."
    )
    yield (
        f"- Requests: chat completions of {settings['agents']} agents in turns, each going on from its agent's last, "
        f"{settings['messages']} messages and {settings['body_bytes'] / 1000:.0f} kB in the mean; after "
        f"{settings['turns']} requests another agent takes its place. The engine is a stub that answers at once, so "
        "a gateway's share of a real step, which takes seconds, is far smaller than these ratios say."
    )
    if settings["streams"]:
        yield (
            f"- Streams: {settings['streams']:,} at once, {settings['events']} events each, one every "
            f"{1000 * settings['event_s']:.0f} ms where the machine keeps up; whole is every byte of its own, in order."
        )
    yield (
        "- The stand-in is no program of others: `benchmarks/gateway/peer.py` is the smallest proxy of ThunderAgent's "
        "design (Starlette, httpx, uvicorn, one process, JSON parsed and written again, a table of programs), without "
        "its scheduling. The real one in Dynamo (`dynamo.thunderagent_router`) is no HTTP proxy: it takes token ids "
        "from Dynamo's frontend and sends them to workers that have registered with Dynamo's runtime. "
        "`benchmarks/front` has both, for makespans; with them in between, its own share could not be told."
    )
    names = ", ".join(f"{name} {version}" for name, version in found.items())
    yield (
        f"- Everything on one machine, load and engine too: {machine['cores']} cores, {machine['cpu'] or 'unknown CPU'}"
        f", Python {machine['python']}; {names}. nginx with one worker."
    )
    yield from _warnings(record)


def _warnings(record: Mapping[str, Any]) -> Iterator[str]:
    for arm in record["arms"].values():
        failed = sum(run[load]["failed"] for run in arm["repeats"] for load in ("one", "many"))
        if failed:
            yield f"- **Failed**: {failed} requests, {arm['title']}."
        streams = [run["streams"] for run in arm["repeats"] if run["streams"]]
        kinds = sorted({kind for each in streams for kind in each["problems"]})
        if kinds:
            lost = sum(each["lost_bytes"] for each in streams)
            yield f"- **Lost**: {lost:,} bytes of streams, {arm['title']} ({', '.join(kinds)})."
        if any((run["others"] or 0) > NOISY for run in arm["repeats"]):
            yield f"- **Doubtful**: other programs used over {NOISY:.0%} of the cores, {arm['title']}."


def clients(record: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]) -> Iterator[str]:
    """Client libraries beside the fastest of the record, which comes first."""
    ordered = sorted(record.items(), key=lambda item: -median(item[1]["per_s"]))
    best = ordered[0][1]["per_s"]
    yield "| client library | requests/s of the fastest |"
    yield "|---|---:|"
    for name, library in ordered:
        ratios = [mine / its for mine, its in zip(library["per_s"], best, strict=True)]
        yield f"| {name} {library['version']} | {_spread(ratios)} |"
    yield ""
    yield (
        f"- The same requests from one event loop to the stub, {settings['connections']} at once, no proxy between; "
        "the gateway uses aiohttp."
    )


def soaks(record: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What was left of thousands of agents that nobody ended."""
    yield (
        "| agents | requests | failed | known at most | known after | MiB, first | MiB, last | MiB, after "
        "| MiB for 1,000 agents | files first, last, after |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for kind, soak in record.items():
        grown, after = soak["growth"], soak["after"]
        first, last = (grown["first"], grown["last"]) if grown else (soak["before"], after)
        slope = f"{grown['kib_per_1000_agents'] / 1024:+.2f}" if grown else "?"
        yield (
            f"| {soak['agents']:,}, {_KINDS.get(kind, kind)} | {soak['requests']:,} | {soak['failed']} "
            f"| {soak['most_agents']:,} | {after['agents']:,} | {_mib(first)} | {_mib(last)} | {_mib(after)} "
            f"| {slope} | {first['files']}, {last['files']}, {after['files']} |"
        )
    yield ""
    idle = ", ".join(f"{soak['idle_after_s']:g}" for soak in record.values())
    yield (
        f"- Agents that make 3 requests and never say that they have ended; `--idle-after` {idle} s. Resident memory "
        "and open files of the gateway's process: first when as many agents end as arrive, last when the last has "
        "arrived, after when all have ended."
    )
    yield "- Measure it again: `python -m benchmarks.gateway soak --json benchmarks/results/gateway.json`."


_KINDS = {"ids": "named", "prefix": "nothing said"}


def _mib(sample: Mapping[str, Any]) -> str:
    return f"{sample['rss_kib'] / 1024:.1f}"


def _added(runs: Sequence[_Repeat], direct: Sequence[_Repeat], name: str) -> list[float]:
    return [run["one"][name] - base["one"][name] for run, base in zip(runs, direct, strict=True)]


def _ratios(
    runs: Sequence[_Repeat], bases: Sequence[_Repeat], value: Callable[[_Repeat], float | None]
) -> list[float | None]:
    pairs = [(value(run), value(base)) for run, base in zip(runs, bases, strict=True)]
    return [mine / base if mine is not None and base else None for mine, base in pairs]


def _per_s(run: _Repeat) -> float:
    return float(run["many"]["per_s"])


def _streams_s(run: _Repeat) -> float | None:
    return run["streams"]["seconds"] if run["streams"] else None


def _whole(runs: Sequence[_Repeat]) -> str:
    seen = [run["streams"] for run in runs if run["streams"]]
    return f"{sum(each['whole'] for each in seen):,} of {sum(each['streams'] for each in seen):,}" if seen else ""


def _spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    middle, low, high = (_short(value) for value in (median(known), min(known), max(known)))
    return middle if len(known) == 1 else f"{middle} ({low}..{high})"


def _short(value: float) -> str:
    """No more digits than tell something; never 0 for what is not."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.2f}" if size >= 0.1 or not value else f"{value:.2g}"
