"""OpenAI's Responses API, as SGLang has it: a translation to chats and back, which keeps nothing between requests."""

from __future__ import annotations

from concur_agents.emulator.responses.endpoint import create_response, no_store

__all__ = ["create_response", "no_store"]
