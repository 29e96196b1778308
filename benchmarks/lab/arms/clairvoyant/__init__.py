"""A scheduler that knows all lengths and all tool times: what admission can reach at best, as far as anybody found."""

from __future__ import annotations

from benchmarks.lab.arms.clairvoyant.gate import ClairvoyantGate, Order, Packing
from benchmarks.lab.arms.clairvoyant.portfolio import MEMBERS, Found, clairvoyant, search

__all__ = ["MEMBERS", "ClairvoyantGate", "Found", "Order", "Packing", "clairvoyant", "search"]
