"""One run: a cluster of some nodes, engines, a shard for each, and a batch of agents."""

from __future__ import annotations

import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import ray
from ray.cluster_utils import Cluster

import concur_agents_ray
from benchmarks import machine
from benchmarks.ray.actors import Batch, Done, Engines, Workers
from concur_agents_ray.names import NAMESPACE, shard_name

__all__ = ["NAME", "Settings", "measure"]

NAME = "benchmark"
_STORE = 80_000_000
_START_S = 300
_MOST_ENGINES = 8
"""In one process: their threads share its interpreter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to run."""

    engines: int
    agents: int
    steps: int
    workers: int
    """Processes that the agents are spread over."""
    nodes: int
    law: str
    preset: str
    speedup: float
    prompt: int
    grows: int
    tool_s: float
    kill: int
    """Engines that are ended once a third of the agents have."""
    limit_s: float


def measure(settings: Settings, say: Callable[[str], None]) -> dict[str, Any]:
    """Run it, and return the record; it names no machine.

    Raises:
        TimeoutError: it did not end in time.
    """
    with _cluster(settings):
        say(f"Ray runs with {settings.nodes} nodes; {settings.engines} engines and their shards start")
        hosts = _hosts(settings)
        urls = list(itertools.chain(*ray.get([host.urls.remote() for host in hosts], timeout=_START_S)))
        concur = concur_agents_ray.controller({"law": settings.law}, engines=urls, name=NAME)
        try:
            return _run(settings, concur, hosts, urls, say)
        finally:
            concur_agents_ray.shutdown(NAME)


def _run(
    settings: Settings, concur: Any, hosts: list[Any], urls: list[str], say: Callable[[str], None]
) -> dict[str, Any]:
    kind = ray.remote(Workers).options(num_cpus=1, max_concurrency=1000, scheduling_strategy="SPREAD")
    workers = [kind.remote(NAME, seed) for seed in range(settings.workers)]
    alone = ray.get(workers[0].cost.remote(300), timeout=_START_S)
    say(f"{settings.agents} agents of {settings.steps} steps begin in {settings.workers} processes")
    batch = Batch(steps=settings.steps, prompt=settings.prompt, grows=settings.grows, tool_s=settings.tool_s)
    names = [f"agent-{number}" for number in range(settings.agents)]
    before, began = _cpu(urls), time.monotonic()
    tasks = [worker.run.remote(names[each :: settings.workers], batch) for each, worker in enumerate(workers)]
    killed = _kill(settings, workers, hosts, urls, tasks) if settings.kill else []
    try:
        done: list[Done] = list(itertools.chain(*ray.get(tasks, timeout=settings.limit_s)))
    except ray.exceptions.GetTimeoutError:
        raise TimeoutError(f"the batch did not end within {settings.limit_s:g} s") from None
    elapsed_s = time.monotonic() - began
    after = _cpu(urls)
    concur.flush()
    left = _left(concur)
    return _record(settings, done, elapsed_s, left, alone) | _shares(before, after, elapsed_s, len(killed))


def _record(settings: Settings, done: list[Done], elapsed_s: float, left: int, alone: list[float]) -> dict[str, Any]:
    first = Counter(each.engines[0] for each in done if each.engines)
    waits = [wait for each in done for wait in each.waits_s]
    mean = len(done) / settings.engines
    return {
        "settings": asdict(settings),
        "machine": machine.describe() | {"ray": ray.__version__},
        "finished": sum(each.finished for each in done),
        "left": left,
        "elapsed_s": elapsed_s,
        "steps": sum(len(each.waits_s) for each in done),
        "moved": sum(len(each.engines) > 1 for each in done),
        "balance": {"least": min(first.values()) / mean, "most": max(first.values()) / mean, "engines": len(first)},
        "alone_ms": _percentiles(alone),
        "wait_ms": _percentiles(waits),
    }


def _shares(before: Mapping[str, float], after: Mapping[str, float], elapsed_s: float, killed: int) -> dict[str, Any]:
    shares = {name: (after[name] - before[name]) / elapsed_s for name in after if name != "directory"}
    return {
        "killed": killed,
        "shard_cpu": {
            "mean": statistics.fmean(shares.values()),
            "least": min(shares.values()),
            "most": max(shares.values()),
        },
        "directory_cpu": (after["directory"] - before["directory"]) / elapsed_s,
    }


def _percentiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"p50": cuts[49] * 1e3, "p99": cuts[98] * 1e3}


def _left(concur: Any) -> int:
    """Agents that some shard still knows, once whatever is under way has had its time."""
    until = time.monotonic() + 30
    while (left := len(concur.agents())) and time.monotonic() < until:
        time.sleep(0.1)
    return left


def _cpu(urls: list[str]) -> dict[str, float]:
    """CPU seconds of each shard's process so far, and of the directory's."""
    actors = {url: shard_name(NAME, url) for url in urls} | {"directory": NAME}
    answers = {name: ray.get_actor(actor, namespace=NAMESPACE).stats.remote() for name, actor in actors.items()}
    return {name: float(ray.get(answer, timeout=_START_S)["cpu_s"]) for name, answer in answers.items()}


def _kill(settings: Settings, workers: list[Any], hosts: list[Any], urls: list[str], tasks: list[Any]) -> list[str]:
    """End engines in the midst of it."""
    while sum(ray.get([worker.finished.remote() for worker in workers])) < settings.agents / 3:
        if len(ray.wait(tasks, num_returns=len(tasks), timeout=0.2)[0]) == len(tasks):
            return []
    victims = urls[: settings.kill]
    for url in victims:
        ray.get([host.kill.remote(url) for host in hosts])
    return victims


def _hosts(settings: Settings) -> list[Any]:
    kind = ray.remote(Engines).options(num_cpus=1, scheduling_strategy="SPREAD")
    full, rest = divmod(settings.engines, _MOST_ENGINES)
    counts = [_MOST_ENGINES] * full + [rest] * (rest > 0)
    return [kind.remote(count, settings.preset, settings.speedup) for count in counts]


@contextmanager
def _cluster(settings: Settings) -> Iterator[None]:
    # As many logical CPUs as there are actors; the machine may have fewer.
    share = {"num_cpus": settings.workers + settings.engines + 1, "object_store_memory": _STORE}
    cluster = Cluster(initialize_head=True, head_node_args=share | {"include_dashboard": False})
    try:
        for _ in range(settings.nodes - 1):
            cluster.add_node(**share)
        ray.init(address=cluster.address, log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()
