"""Named actors: how they are found from anywhere in the cluster."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError

from concur_agents.remote.protocol import UnreachableError

__all__ = ["NAMESPACE", "NamedActor", "find", "shard_name", "shards_of"]

NAMESPACE: Final = "concur"
"""Ray's namespace of our actors; one for all jobs, so that they share engines."""
_SHARD = " at "


def shard_name(name: str, url: str) -> str:
    """The actor of one engine's shard."""
    return f"{name}{_SHARD}{url}"


def shards_of(name: str) -> list[str]:
    """The shards' actors that there are."""
    listed: list[dict[str, str]] = ray.util.list_named_actors(all_namespaces=True)
    start = f"{name}{_SHARD}"
    return [each["name"] for each in listed if each["namespace"] == NAMESPACE and each["name"].startswith(start)]


def find(name: str) -> Any | None:
    """The actor of that name; None when there is none.

    Raises:
        UnreachableError: Ray is not there (any more).
    """
    if not ray.is_initialized():  # asked for an actor, Ray would start a cluster of its own
        raise UnreachableError("Ray is not initialized (any more) in this process")
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return None
    except Exception as error:  # noqa: BLE001 - Ray names no common base for these
        raise UnreachableError(f"Ray does not answer: {type(error).__name__}: {error}") from None


class NamedActor:
    """Calls one actor by its name, whichever life it is in. From any thread and event loop."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self._handle: Any = None
        self._lock = threading.Lock()

    async def call(self, method: str, *args: Any, timeout_s: float) -> Any:
        """Have the actor do it.

        Raises:
            UnreachableError: there is no such actor, it has died, it is being restarted, or it gives no answer in time.
        """
        handle = self._handle
        try:
            async with asyncio.timeout(timeout_s):
                if handle is None:
                    handle = await asyncio.to_thread(find, self.name)  # asks Ray's own controller, and blocks
                    if handle is None:
                        raise UnreachableError(f"there is no actor {self.name!r} in Ray's namespace {NAMESPACE!r}")
                    self._handle = handle
                answer = getattr(handle, method).remote(*args).future()
                return await asyncio.wrap_future(answer)
        except UnreachableError:
            raise
        except TimeoutError:
            raise UnreachableError(f"actor {self.name!r} gave no answer within {timeout_s:g} s") from None
        except RayTaskError as error:
            raise UnreachableError(f"actor {self.name!r} failed: {error.cause!r:.500}") from None
        except RayError as error:
            if isinstance(error, ActorDiedError):
                self._forget(handle)
            what = str(error).partition("\n")[0]
            raise UnreachableError(f"actor {self.name!r} is not there: {type(error).__name__}: {what}") from None
        except Exception as error:  # noqa: BLE001 - Ray was shut down, or is just not up to it
            self._forget(handle)
            raise UnreachableError(f"actor {self.name!r} cannot be called: {type(error).__name__}: {error}") from None

    def _forget(self, handle: Any) -> None:
        """It will not come back under this handle; perhaps another one has its name by now."""
        with self._lock:
            if self._handle is handle:
                self._handle = None
