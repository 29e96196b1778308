"""What tasks, actors and the driver hold: a controller whose seats are in shards, one for each engine."""

from __future__ import annotations

from typing import Final

from concur_agents.fleet.spread import SpreadController
from concur_agents.fleet.words import EngineState, Scene
from concur_agents.remote.protocol import UnreachableError
from concur_agents.remote.seats import RemoteSeats
from concur_agents_ray.names import NamedActor
from concur_agents_ray.transport import RayTransport

__all__ = ["RayController"]


class _Directory:
    """The directory's actor."""

    def __init__(self, name: str) -> None:
        self._actor = NamedActor(name)

    async def place(self, agent_id: str, parent: str | None, *, timeout_s: float) -> str | None:
        """See ``DirectoryClient``."""
        engine = await self._actor.call("place", agent_id, parent, timeout_s=timeout_s)
        return None if engine is None else str(engine)

    async def watch(self, version: tuple[str, int] | None, *, timeout_s: float) -> Scene:
        """See ``DirectoryClient``."""
        scene = await self._actor.call("watch", version, timeout_s=timeout_s)
        if not isinstance(scene, Scene):
            raise UnreachableError(f"the directory's answer is none: {scene!r:.80}")
        return scene


class RayController(SpreadController):
    """Admits the agents of this process, beside those of the cluster's others. Made by :func:`controller`.

    Agents, steps, primitives, decorators and wrapped clients are those of a ``Controller``. Beside them:

    * :meth:`engine` says which engine an agent is on; a client wrapped by :meth:`wrap_client` sends there.
    * When an engine is down, its agents go on at another with their next steps; who waits for a seat there, at once.
    * While a shard is gone, its agents go on without control; that is said once, and when it is back.

    Args:
        directory: the actor's name.
        scene: the engines, as the directory showed them.
        patience_s: seconds without an answer after which a shard is taken to be gone. > 0.
        lease_s: seconds without a word after which a shard takes this process to be gone; None as it likes.
    """

    def __init__(self, directory: str, scene: Scene, *, patience_s: float, lease_s: float | None = None) -> None:
        def open_seats(engine: EngineState) -> RemoteSeats:
            shard = engine.shard
            return RemoteSeats(lambda: RayTransport(shard), f"actor {shard!r}", lease_s=lease_s, patience_s=patience_s)

        self.name: Final = directory
        """Of the actors: other names are other controllers."""
        super().__init__(_Directory(directory), open_seats, scene, patience_s=patience_s)
