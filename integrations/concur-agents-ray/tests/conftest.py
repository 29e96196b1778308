"""A cluster of Ray's on this machine, and embedded engines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

import concur_agents_ray
from concur_agents.emulator import Emulator
from concur_agents.remote.protocol import UnreachableError
from concur_agents_ray import RayController
from concur_agents_ray.names import shard_name

SMALL = {"num_cpus": 4, "object_store_memory": 80_000_000}
PATIENCE_S = 60.0


def _until(look: Callable[[], Any], what: str = "") -> Any:
    """What ``look`` returns, once it is true."""
    end = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < end, f"did not come true: {what or look}"
        time.sleep(0.02)
    return found


@pytest.fixture(scope="session")
def until() -> Callable[..., Any]:
    return _until


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    # A dead node is noticed after some 5 s, not 15.
    settings = {"health_check_period_ms": 1000, "health_check_initial_delay_ms": 1000}
    head = {**SMALL, "include_dashboard": False, "_system_config": settings}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def second_node(cluster: Cluster) -> Any:
    """A node beside the head: kept for the next test, unless that removes it."""
    nodes = list(cluster.worker_nodes)
    return nodes[0] if nodes else cluster.add_node(**SMALL)


class Fleet:
    """Engines, and the controller of a name of its own."""

    def __init__(self, name: str, emulators: list[Emulator], concur: RayController) -> None:
        self.name, self.emulators, self.concur = name, emulators, concur
        self.urls = [each.url for each in emulators]

    def actor(self, url: str | None = None) -> Any:
        name = self.name if url is None else shard_name(self.name, url)
        return ray.get_actor(name, namespace="concur")

    def stats(self, url: str | None = None) -> dict[str, Any]:
        while True:  # it may be between two lives
            try:
                return ray.get(self.actor(url).stats.remote(), timeout=PATIENCE_S)
            except ray.exceptions.ActorUnavailableError:
                time.sleep(0.05)

    def pid(self, url: str | None = None) -> int:
        return self.stats(url)["pid"]

    def left(self) -> list[str]:
        """Agents that some shard still knows."""
        try:
            return [view.agent_id for view in self.concur.agents()]
        except UnreachableError as error:
            return [str(error)]


def _emulators(count: int) -> list[Emulator]:
    return [Emulator().__enter__() for _ in range(count)]


def _stop(name: str, emulators: list[Emulator]) -> None:
    concur_agents_ray.shutdown(name)
    for emulator in emulators:
        if emulator._thread.is_alive():
            emulator.__exit__(None, None, None)


@pytest.fixture
def fleet(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Callable[..., Fleet]]:
    """Makes one of the test's own: its actors take seconds to start."""
    name = request.node.name
    emulators: list[Emulator] = []

    def make(engines: int = 2, **options: Any) -> Fleet:
        emulators.extend(_emulators(engines))
        options = {"config": {"law": "fixed:4"}, "engines": [each.url for each in emulators]} | options
        return Fleet(name, emulators, concur_agents_ray.controller(name=name, **options))

    yield make
    _stop(name, emulators)


@pytest.fixture(scope="session")
def shared_fleet(cluster: Cluster) -> Iterator[Fleet]:
    emulators = _emulators(2)
    urls = [each.url for each in emulators]
    yield Fleet("shared", emulators, concur_agents_ray.controller({"law": "fixed:4"}, engines=urls, name="shared"))
    _stop("shared", emulators)


@pytest.fixture
def shared(shared_fleet: Fleet) -> Fleet:
    """Two engines with four seats each, for tests that leave them as they were."""
    _until(lambda: not shared_fleet.left())
    return shared_fleet
