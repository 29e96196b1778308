"""Other people's ways of limiting agents, as their public sources decide. See ``README.md`` beside this file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from benchmarks.lab.arms.base import Arm
from benchmarks.lab.arms.peers.dynamo import dynamo
from benchmarks.lab.arms.peers.fireworks import fireworks
from benchmarks.lab.arms.peers.gradient2 import gradient2
from benchmarks.lab.arms.peers.llm_d import llm_d
from benchmarks.lab.arms.peers.netflix_aimd import netflix_aimd
from benchmarks.lab.arms.peers.prime_rl import prime_rl
from benchmarks.lab.arms.peers.thunder import thunder

__all__ = ["PEERS"]

PEERS: Mapping[str, Callable[[str, str], Arm]] = MappingProxyType(
    {
        "dynamo": dynamo,
        "fireworks": fireworks,
        "gradient2": gradient2,
        "llm-d": llm_d,
        "netflix-aimd": netflix_aimd,
        "prime-rl": prime_rl,
        "thunder": thunder,
    }
)
"""Makes an arm of its full name and its argument."""
