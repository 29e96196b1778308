"""Anthropic's Messages API, as SGLang has it: a translation to chats and back."""

from __future__ import annotations

from concur_agents.emulator.messages.endpoint import count_tokens, create_message

__all__ = ["count_tokens", "create_message"]
