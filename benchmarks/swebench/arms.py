"""The arms: how many agents may be active at a time, or how many requests; or another engine. All else is the same."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from anyio import CapacityLimiter

from benchmarks.engines.kinds import Needs
from benchmarks.laws import LAWS, named, number, split_names
from benchmarks.swebench.proxy import Proxy, read_proxy
from concur_agents.laws import Law, Uncontrolled

__all__ = ["ARMS", "HOST_CACHE", "LAW_ARMS", "PROXIES", "Arm", "meaning_of", "parse_arms"]

HOST_CACHE = 2.0
"""Host memory as a multiple of the pool: SGLang's default (``--hicache-ratio``)."""
PROXIES: Mapping[str, Path] = MappingProxyType(
    {"thunderagent": Path(__file__).parents[1] / "front" / "thunderagent.toml"}
)
"""Those that come with the benchmark, by name: Dynamo's ThunderAgent router."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way of admitting agents."""

    name: str = ""
    """As the user wrote it; heads its figures."""
    law: Law = field(default_factory=Uncontrolled)
    """Pure, so it can serve every repeat."""
    needs: Needs = field(default_factory=Needs)
    """How the engine has to be started."""
    open_requests: int | None = None
    """Most requests that all agents together have open at once; None for any number."""
    proxy: Proxy | None = None
    """What agents talk to in place of the engine."""

    def requests(self) -> AbstractAsyncContextManager[object]:
        """To be entered for each request, in one run of the arm."""
        return contextlib.nullcontext() if self.open_requests is None else CapacityLimiter(self.open_requests)


def requests(argument: str) -> Arm:
    """The engine's own cap of N requests that run at once: ``requests:8``."""
    return Arm(needs=Needs(max_running_requests=number(argument, "requests, as in requests:8")))


def client_requests(argument: str) -> Arm:
    """At most N requests are open at once, of all agents: ``client-requests:8``. Agents in tools do not count."""
    return Arm(open_requests=number(argument, "requests, as in client-requests:8"))


def hicache(argument: str) -> Arm:
    """Any arm on an engine that also keeps KV in host memory: ``hicache`` alone, or ``hicache:budget``."""
    inner = named(argument or "uncontrolled", ARMS)
    if inner.needs.host_cache is not None:
        raise ValueError("is about host memory once, not twice")
    return replace(inner, needs=replace(inner.needs, host_cache=HOST_CACHE))


def proxy(argument: str) -> Arm:
    """Through a proxy before the engine: ``proxy:mine.toml``, see ``proxy.py``; or one of :data:`PROXIES` by name."""
    if not argument:
        raise ValueError("needs a file, as in proxy:thunder.toml")
    found = read_proxy(PROXIES.get(argument) or Path(argument))
    return Arm(proxy=found, needs=found.needs)


def _of(law: Callable[[str], Law]) -> Callable[[str], Arm]:
    return lambda argument: Arm(law=law(argument))


LAW_ARMS: Mapping[str, Callable[[str], Arm]] = MappingProxyType({name: _of(law) for name, law in LAWS.items()})
"""Makes an arm of its argument, but for its name; raises ValueError saying what is wrong with that."""
ARMS: Mapping[str, Callable[[str], Arm]] = MappingProxyType(
    {**LAW_ARMS, "client-requests": client_requests, "hicache": hicache, "proxy": proxy, "requests": requests}
)
"""The same, with those that are more than a law."""


def parse_arms(text: str, makers: Mapping[str, Callable[[str], Arm]] = ARMS) -> tuple[Arm, ...]:
    """The arms in ``text``, in its order.

    Args:
        text: what the user wrote.
        makers: those that there are.

    Raises:
        ValueError: no arm, an unknown one, the same one twice, or an argument that its arm cannot read.
    """
    return tuple(replace(named(name, makers), name=name) for name in split_names(text))


_MEANINGS = {
    "uncontrolled": "Every agent may go on at any time.",
    "requests": "The engine runs at most {} requests at a time, by a flag of its own; the others queue in it.",
    "client-requests": "All agents together have at most {} requests open at a time; between two, others have a turn.",
    "fixed": "At most {} agents take part at a time. The next one comes when one of them has finished.",
    "concur": "The Concur paper's law: how many agents take part follows usage and hit rate of the engine's cache.",
    "budget": "Concur's default law: agents take part as long as their contexts fit into the engine's cache together.",
    "config": "A law from a configuration file, {}.",
    "proxy": "A proxy between agents and engine decides: {}.",
}
_ON_HICACHE = "The engine also keeps in the host's memory what its cache has no room for (SGLang's HiCache)."


def meaning_of(name: str) -> str:
    """What an arm is, for somebody who sees its name for the first time."""
    kind, _, argument = name.partition(":")
    if kind == "hicache":
        return f"{meaning_of(argument or 'uncontrolled')} {_ON_HICACHE}"
    return _MEANINGS.get(kind, "").format(argument)
