"""What is compared: each arm is an engine's flags and what stands before the engine. To add one, add it to ``ARMS``."""

from __future__ import annotations

from benchmarks.lab.arms.base import Arm, Scene
from benchmarks.lab.arms.registry import ARMS, parse_arms

__all__ = ["ARMS", "Arm", "Scene", "parse_arms"]
