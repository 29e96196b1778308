"""The one controller of each process, and the actors behind it: made by whoever comes first, found by all others."""

from __future__ import annotations

import atexit
import math
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray

from concur_agents import ConfigError, LifecycleError
from concur_agents.config import ENVIRONMENT, load_config
from concur_agents.config.environment import KEY_VARIABLE
from concur_agents.config.models import Config, EngineConfig
from concur_agents.engines.url import engine_url
from concur_agents.fleet.words import Scene
from concur_agents_ray.controller import RayController
from concur_agents_ray.directory import Directory
from concur_agents_ray.names import NAMESPACE, find, shard_name, shards_of
from concur_agents_ray.shard import MOST_CALLS, Secrets, Shard

__all__ = ["controller", "shutdown"]

_START_S = 120.0
"""For the actors to begin, on a busy cluster."""
# Seconds at the interpreter's exit: Ray kills its workers soon after.
_PATIENCE = 1.0


def controller(
    config: str | Path | Mapping[str, Any] | Config | None = None,
    *,
    engines: Sequence[str | Mapping[str, Any]] | None = None,
    name: str = "concur",
    detached: bool = True,
    patience_s: float = 10.0,
    lease_s: float | None = None,
    in_flight_s: float = 600.0,
    actor_options: Mapping[str, Any] | None = None,
) -> RayController:
    """The controller of this process, for agents that share engines with the cluster's other processes.

    From any task, actor or driver, and any thread. The first call in the cluster makes the actors; others find them by
    their name, and need no configuration then. The first call in a process blocks: for a moment, or for as long as
    actors take to start.

    Args:
        config: as for ``Controller.from_config``; read only where actors are to be made, or where it is given.
        engines: the engines, in place of the configuration's: addresses, or blocks as in a configuration's ``engines``.
            Those that have no shard yet are added to those that have.
        name: of the actors; another name is another controller.
        detached: the actors outlive the job, until :func:`shutdown`; else they end with the process that made them,
            which is then best the driver.
        patience_s: seconds without an answer after which a shard is taken to be gone, and its agents go on without
            control. > 0. Ray takes some seconds to begin an actor again.
        lease_s: seconds without a word after which a shard takes this process to be gone, and ends its agents that are
            between steps. > 0; 15 by default.
        in_flight_s: seconds for which an agent that generates keeps its seat when its process is gone, since the engine
            may still be at its request; of shards that this call makes. >= 0.
        actor_options: Ray's further options for the actors, such as ``scheduling_strategy`` or ``runtime_env``.

    Raises:
        ConfigError: lists every problem.
        LifecycleError: Ray is not initialized in this process.
        ValueError: a parameter is out of range, or there are actors of that name with another configuration.
    """
    for field, value in (("patience_s", patience_s), ("lease_s", lease_s)):
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{field} must be a finite number of seconds above 0, got {value!r}")
    if not 0 <= in_flight_s < math.inf:
        raise ValueError(f"in_flight_s must be a finite number of seconds from 0, got {in_flight_s!r}")
    if not name or name != name.strip():
        raise ValueError(f"name must be a text without spaces at its ends, got {name!r}")
    if not ray.is_initialized():
        raise LifecycleError("Ray is not initialized in this process: call ray.init() first")
    context = ray.get_runtime_context()
    cluster = (os.getpid(), context.gcs_address, context.get_job_id())
    with _state.lock:
        _state.prepare()
        cached = _state.controllers.get(name)
        there = cached is not None and cached[0] == cluster and not cached[1].closed
        if cached is not None and there and config is None and engines is None:
            return cached[1]
        directory = find(name)
        if directory is None or config is not None or engines is not None:
            options = dict(actor_options or {}) | {"lifetime": "detached" if detached else None}
            directory = _make(directory, config, engines, name, options, in_flight_s)
        if cached is not None and there:
            return cached[1]
        scene: Scene = ray.get(directory.watch.remote(None), timeout=_START_S)
        if not scene.engines:
            raise ConfigError(f"the controller {name!r} has no engine (any more): give engines")
        made = RayController(name, scene, patience_s=patience_s, lease_s=lease_s)
        _state.controllers[name] = (cluster, made)
        return made


def shutdown(name: str = "concur") -> None:
    """End the actors of that name, in the whole cluster: agents that still run go on without control.

    Raises:
        UnreachableError: Ray is not there.
    """
    with _state.lock:
        cached = _state.controllers.pop(name, None)
    if cached is not None:
        cached[1].close()
    for actor in (name, *shards_of(name)):
        handle = find(actor)
        if handle is not None:
            ray.kill(handle, no_restart=True)


def _make(
    directory: Any,
    config: str | Path | Mapping[str, Any] | Config | None,
    engines: Sequence[str | Mapping[str, Any]] | None,
    name: str,
    options: Mapping[str, Any],
    in_flight_s: float,
) -> Any:
    """Make what is missing."""
    loaded = load_config(config, engine=engines is None).config
    chosen = loaded.engines if engines is None else _engines(engines)
    common = loaded.model_copy(update={"engines": ()})
    if directory is not None and config is not None:
        theirs: Config = ray.get(directory.config.remote(), timeout=_START_S)
        if theirs != common:
            raise ValueError(f"the controller {name!r} was made with another configuration: give this one another name")
    elif directory is not None:
        common = ray.get(directory.config.remote(), timeout=_START_S)
    for engine in chosen:
        url = engine_url(engine.url).url
        key = engine.api_key_env
        secrets = Secrets() if key is None else Secrets({key: os.environ[key]})
        own = common.model_copy(
            update={"engines": (engine.model_copy(update={"url": url}),), "logging": _logging(common, url)}
        )
        _actor(Shard, shard_name(name, url), options).remote(own, secrets, in_flight_s)
    if directory is None:
        return _actor(Directory, name, options).remote(name, common)
    ray.get(directory.look.remote(), timeout=_START_S)
    return directory


def _actor(kind: type, name: str, options: Mapping[str, Any]) -> Any:
    # It asks for no CPU: a full cluster must not keep it, or its next life, from starting. Calls are not tried again by
    # Ray, since who calls knows better what is safe to be said twice.
    ours: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": 0, "max_concurrency": MOST_CALLS}
    return ray.remote(kind).options(**(ours | dict(options)), name=name, namespace=NAMESPACE, get_if_exists=True)


def _engines(engines: Sequence[str | Mapping[str, Any]]) -> tuple[EngineConfig, ...]:
    blocks = [{"url": each} if isinstance(each, str) else dict(each) for each in engines]
    if not blocks:
        raise ConfigError("engines must be a list of at least one engine, got none")
    # What the environment says of one engine is not meant for these; its key may be. One by one, since an engine that
    # is named twice is no error here.
    ours = {each.name for each in ENVIRONMENT if each.path[:1] in (("engines",), ("controller",))}
    env = {name: value for name, value in os.environ.items() if name == KEY_VARIABLE or name not in ours}
    return tuple(load_config({"engines": [block]}, env=env).config.engines[0] for block in blocks)


def _logging(config: Config, url: str) -> Any:
    """Events of each engine go into a file of their own."""
    events = config.logging.events
    if events is None:
        return config.logging
    path = Path(events)
    short = "".join(each if each.isalnum() else "-" for each in url.partition("://")[2])
    return config.logging.model_copy(update={"events": str(path.with_name(f"{path.stem}-{short}{path.suffix}"))})


class _State:
    """What this process has."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.controllers: dict[str, tuple[tuple[Any, ...], RayController]] = {}
        self._prepared = False

    def prepare(self) -> None:
        """At first use, not at import, which does nothing."""
        if not self._prepared:
            self._prepared = True
            atexit.register(self.close)

    def close(self) -> None:
        """The interpreter ends."""
        with self.lock:
            controllers, self.controllers = self.controllers, {}
        for _, each in controllers.values():
            each.close(timeout=_PATIENCE)


_state = _State()
