"""Concur for mini-swe-agent, and for its batch runners: ``python -m concur_agents_mini_swe_agent swebench ...``."""

from concur_agents_mini_swe_agent.agents import ConcurAgent, ConcurMixin, concur

__all__ = ["ConcurAgent", "ConcurMixin", "concur"]
