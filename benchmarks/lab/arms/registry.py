"""Arms by name.

An arm is written ``name`` or ``name:argument``; arms are separated by commas, and an argument may itself be a list
``key=value,key=value``: the benchmark's own arms (``benchmarks/swebench/arms.py``) and those of the lab.
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
from benchmarks.swebench import arms as shared

__all__ = ["ARMS", "parse_arms"]


def _law(kind: str, name: str, argument: str) -> Arm:
    law = shared.ARMS[kind](argument)  # read now, so that a mistake is said before anything runs
    return law_arm(name, lambda: law)


def _requests(name: str, argument: str) -> Arm:
    """The engine itself runs at most so many requests at once: ``requests:32`` (SGLang's --max-running-requests)."""
    try:
        most = int(argument)
        if most < 1:
            raise ValueError
    except ValueError:
        raise ValueError(f"needs a number of requests, as in requests:32, not {argument!r}") from None
    law = shared.ARMS["uncontrolled"]("")
    return law_arm(name, lambda: law, lambda engine: engine.with_config(max_running_requests=most))


def _hicache(name: str, argument: str) -> Arm:
    """Any arm on an engine with a cache tier in host memory: ``hicache`` alone, or ``hicache:budget``."""
    inner = _parse_arm(argument or "uncontrolled")
    return Arm(name, inner.gate, lambda engine: with_host_cache(inner.flags(engine)))


def _blind(name: str, argument: str) -> Arm:
    """Any arm without what an engine may not say: ``blind:capacity:budget``; also cached, metrics, usage."""
    return blind(name, argument, _parse_arm)


ARMS: Mapping[str, Callable[[str, str], Arm]] = MappingProxyType(
    {
        **{kind: partial(_law, kind) for kind in shared.ARMS},
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
    names = shared.split_arms(text)
    if not names:
        raise ValueError("no arm given: name at least one, as in --arms uncontrolled,concur")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"arm {twice[0]!r} is given twice")
    return tuple(_parse_arm(name) for name in names)


def _parse_arm(name: str) -> Arm:
    kind, _, argument = name.partition(":")
    make = ARMS.get(kind)
    if make is None:
        raise ValueError(f"unknown arm {name!r}: choose from {', '.join(sorted(ARMS))}")
    try:
        return make(name, argument)
    except ValueError as error:
        raise ValueError(f"arm {name!r} {error}") from None
