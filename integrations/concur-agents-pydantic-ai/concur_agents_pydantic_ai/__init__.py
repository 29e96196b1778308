"""Concur for Pydantic AI agents."""

from concur_agents_pydantic_ai.capability import ConcurCapability

__all__ = ["ConcurCapability"]
