"""Concur for smolagents: ``agent = concur(ToolCallingAgent(tools, model), controller)``."""

from concur_agents_smolagents.agents import concur

__all__ = ["concur"]
