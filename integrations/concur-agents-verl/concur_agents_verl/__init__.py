"""Concur for verl: each rollout of an agent loop is an agent, each of its generations a step."""

from concur_agents_verl.loops import ConcurLoop, ConcurToolAgentLoop, concur

__all__ = ["ConcurLoop", "ConcurToolAgentLoop", "concur"]
