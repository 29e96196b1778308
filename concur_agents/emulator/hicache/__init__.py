"""A second tier of the prefix cache in host memory: SGLang's HiCache.

What the pool evicts is still found in host memory, and is loaded back when a request needs it. See ``cache.py``.
"""

from __future__ import annotations

from concur_agents.emulator.hicache.cache import HostedCache
from concur_agents.emulator.hicache.config import HiCacheConfig, WritePolicy

__all__ = ["HiCacheConfig", "HostedCache", "WritePolicy"]
