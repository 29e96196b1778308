"""Arms by name.

An arm is written ``name`` or ``name:argument``; arms are separated by commas, and an argument may itself be a list
``key=value,key=value``: the laws of all benchmarks (``benchmarks/laws.py``) and those of the lab.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from benchmarks.lab.arms.base import Arm, law_arm
from benchmarks.lab.arms.blind import blind
from benchmarks.lab.arms.clairvoyant import clairvoyant
from benchmarks.lab.arms.peers import PEERS
from benchmarks.lab.engines import with_host_cache
from benchmarks.laws import LAWS, named, number, split_names
from concur_agents.laws import Uncontrolled

__all__ = ["ARMS", "parse_arms"]


def _law(kind: str, name: str, argument: str) -> Arm:
    law = LAWS[kind](argument)  # read now, so that a mistake is said before anything runs
    return law_arm(name, lambda: law)


def _requests(name: str, argument: str) -> Arm:
    """The engine itself runs at most so many requests at once: ``requests:32`` (SGLang's --max-running-requests)."""
    most = number(argument, "requests, as in requests:32")
    return law_arm(name, Uncontrolled, lambda engine: engine.with_config(max_running_requests=most))


def _hicache(name: str, argument: str) -> Arm:
    """Any arm on an engine with a cache tier in host memory: ``hicache`` alone, or ``hicache:budget``."""
    inner = _parse_arm(argument or "uncontrolled")
    return Arm(name, inner.gate, lambda engine: with_host_cache(inner.flags(engine)))


def _blind(name: str, argument: str) -> Arm:
    """Any arm without what an engine may not say: ``blind:capacity:budget``; also cached, metrics, usage."""
    return blind(name, argument, _parse_arm)


ARMS: Mapping[str, Callable[[str, str], Arm]] = MappingProxyType(
    {
        **{kind: partial(_law, kind) for kind in LAWS},
        "blind": _blind,
        "clairvoyant": clairvoyant,
        "hicache": _hicache,
        "requests": _requests,
        **PEERS,
    }
)
"""Makes an arm of its full name and its argument."""


def parse_arms(text: str) -> tuple[Arm, ...]:
    """The arms named in ``text``, in its order.

    Raises:
        ValueError: no arm, an unknown one, the same one twice, or an argument that its arm cannot read.
    """
    return tuple(_parse_arm(name) for name in split_names(text))


def _parse_arm(name: str) -> Arm:
    return named(name, {kind: partial(make, name) for kind, make in ARMS.items()})
