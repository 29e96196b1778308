"""Chaos on Ray: ``python -m benchmarks.chaos.ray --runs 20 --seed 0``.

A run is two embedded engines, a shard for each, a directory, and two processes with agents, on a cluster of two nodes.
What is killed, and when, is drawn from the seed before it begins. Checked: every agent of a surviving process gets all
its replies in time, and then no shard knows anybody. Ends with 1 if a run failed. It needs the integration, as
``benchmarks.ray`` does.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import ray
import typer
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import concur_agents_ray
from benchmarks import interrupts
from benchmarks.ray.actors import Batch, Workers
from concur_agents.emulator import Emulator, ServiceConfig
from concur_agents_ray.names import NAMESPACE, shard_name

__all__ = ["Event", "main", "plan_of"]

_SHARE = {"num_cpus": 8, "object_store_memory": 80_000_000}
_SETTINGS = {"health_check_period_ms": 1000, "health_check_initial_delay_ms": 1000}
_LIMIT_S = 120.0
_LEASE_S, _IN_FLIGHT_S = 2.0, 4.0
_AGENTS = 12
"""In each process."""
_BATCH = Batch(steps=5, prompt=100, grows=50, tool_s=0.5)
_ONCE = ("worker", "node", "engine")
"""At most one of each in a run: somebody has to survive."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that goes wrong."""

    after_s: float
    what: str
    which: int


def plan_of(seed: int) -> tuple[Event, ...]:
    """What happens in the run of that seed."""
    rng = random.Random(seed)
    events: list[Event] = []
    for _ in range(rng.randint(1, 4)):
        done = {event.what for event in events}
        left = ["shard", "shard", "directory", "stop", *(what for what in _ONCE if what not in done)]
        if done & {"worker", "node"}:
            left = [what for what in left if what not in ("worker", "node")]
        events.append(Event(round(rng.uniform(0, 4), 2), rng.choice(left), rng.randrange(2)))
    return tuple(sorted(events, key=lambda event: event.after_s))


class _Run:
    """One run, on a cluster that outlives it."""

    def __init__(self, seed: int, cluster: Cluster) -> None:
        self._cluster = cluster
        self._name = f"chaos-{seed}"
        self._lost: set[int] = set()
        """Processes that we have ended."""
        self._node = next(iter(cluster.worker_nodes), None) or cluster.add_node(**_SHARE)
        config = ServiceConfig.preset("laptop", speedup=10)
        self._emulators = [Emulator(config).__enter__() for _ in range(2)]
        self._urls = [each.url for each in self._emulators]
        self._concur = concur_agents_ray.controller(
            {"law": "fixed:6"}, engines=self._urls, name=self._name, patience_s=5.0, in_flight_s=_IN_FLIGHT_S
        )
        nodes = (ray.get_runtime_context().get_node_id(), self._node.node_id)
        kind = ray.remote(Workers)
        self._workers = [
            kind.options(
                num_cpus=1, max_concurrency=100, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)
            ).remote(self._name, seed, _LEASE_S)
            for node in nodes
        ]
        self._pids = [ray.get(worker.pid.remote(), timeout=_LIMIT_S) for worker in self._workers]

    def go(self, events: tuple[Event, ...]) -> list[str]:
        """Run it; what was wrong."""
        names = [[f"{process}-{agent}" for agent in range(_AGENTS)] for process in range(2)]
        tasks = [worker.run.remote(those, _BATCH) for worker, those in zip(self._workers, names, strict=True)]
        began = time.monotonic()
        for event in events:
            time.sleep(max(0.0, began + event.after_s - time.monotonic()))
            self._do(event)
        problems = []
        for process, task in enumerate(tasks):
            try:
                done = ray.get(task, timeout=max(1.0, began + _LIMIT_S - time.monotonic()))
                problems += [f"{each.agent_id} did not finish" for each in done if not each.finished]
            except ray.exceptions.GetTimeoutError:
                problems.append(f"process {process} did not end")
            except ray.exceptions.RayActorError:
                if process not in self._lost:
                    problems.append(f"process {process} died by itself")
        return problems + [f"{agent} is left at a shard" for agent in self._left()]

    def close(self) -> None:
        """End all that it began."""
        concur_agents_ray.shutdown(self._name)
        for worker in self._workers:
            ray.kill(worker)
        for emulator in self._emulators:
            emulator.__exit__(None, None, None)

    def _do(self, event: Event) -> None:
        if event.what == "shard":
            self._signal(shard_name(self._name, self._urls[event.which]), signal.SIGKILL)
        elif event.what == "directory":
            self._signal(self._name, signal.SIGKILL)
        elif event.what == "stop":
            pid = self._signal(shard_name(self._name, self._urls[event.which]), signal.SIGSTOP)
            time.sleep(1.0)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid or os.getpid(), signal.SIGCONT)
        elif event.what == "engine":
            self._emulators.pop(event.which).__exit__(None, None, None)
        elif event.what == "worker":
            self._lost.add(event.which)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pids[event.which], signal.SIGKILL)
        else:
            self._lost.add(1)
            self._cluster.remove_node(self._node, allow_graceful=False)

    def _signal(self, actor: str, number: int) -> int | None:
        """To an actor's process, if it is there now; on this machine all are."""
        try:
            pid = int(ray.get(ray.get_actor(actor, namespace=NAMESPACE).stats.remote(), timeout=5)["pid"])
            os.kill(pid, number)
        except (ray.exceptions.RayError, ProcessLookupError):
            return None  # between two lives
        return pid

    def _left(self) -> list[str]:
        until = time.monotonic() + 60
        while True:
            try:
                left = [view.agent_id for view in self._concur.agents()]
            except Exception as error:  # noqa: BLE001 - between two lives
                left = [repr(error)]
            if not left or time.monotonic() > until:
                return left
            time.sleep(0.2)


def main(
    *,
    runs: Annotated[int, typer.Option(min=1)] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Of the first run.")] = 0,
) -> None:
    """Random runs in which actors, processes, nodes and engines die."""
    interrupts.end_as_interrupted()
    failed = 0
    with _cluster() as cluster:
        for each in range(seed, seed + runs):
            events = plan_of(each)
            run = _Run(each, cluster)
            try:
                began = time.monotonic()
                problems = run.go(events)
            finally:
                run.close()
            failed += bool(problems)
            what = ", ".join(f"{event.what} {event.which} at {event.after_s:g} s" for event in events)
            verdict = "; ".join(problems) or "ok"
            sys.stdout.write(f"seed {each}: {what}: {verdict} ({time.monotonic() - began:.0f} s)\n")
            sys.stdout.flush()
    sys.exit(1 if failed else 0)


@contextlib.contextmanager
def _cluster() -> Iterator[Any]:
    head = _SHARE | {"include_dashboard": False, "_system_config": _SETTINGS}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    typer.run(main)
