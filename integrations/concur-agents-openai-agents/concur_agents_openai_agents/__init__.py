"""Concur for agents of the OpenAI Agents SDK."""

from concur_agents_openai_agents.runner import ConcurRunner

__all__ = ["ConcurRunner"]
