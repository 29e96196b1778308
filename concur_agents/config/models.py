"""The schema: what a configuration may say."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from concur_agents.config.environment import KEY_VARIABLE
from concur_agents.config.fields import (
    AboveZero,
    Allowed,
    ControllerUrl,
    EventsPath,
    HeaderName,
    Kind,
    LogLevel,
    Section,
    Url,
    VariableName,
    Window,
)
from concur_agents.config.laws import BudgetLawConfig, LawConfig
from concur_agents.engines import VLLM, SGLang, TensorRTLLM
from concur_agents.engines.reader import MetricsReader
from concur_agents.engines.url import engine_url

__all__ = ["Config", "EngineConfig", "IdentityConfig", "LoggingConfig"]

_READERS: Final[dict[str, type[MetricsReader]]] = {"sglang": SGLang, "vllm": VLLM, "tensorrt_llm": TensorRTLLM}


def _once(engines: tuple[EngineConfig, ...]) -> tuple[EngineConfig, ...]:
    urls = [engine_url(each.url).url for each in engines]
    twice = next((url for url in urls if urls.count(url) > 1), None)
    if twice is not None:
        raise ValueError(f"must not hold an engine twice, got {twice}")
    return engines


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class EngineConfig(Section):
    """One engine."""

    url: Url
    """Base address of the engine, with or without ``/v1``."""
    kind: Kind = "sglang"
    """Which engine it is."""
    api_key_env: VariableName | None = None
    """Environment variable that holds the engine's key; the key itself is never in a file."""

    @field_validator("api_key_env")
    @classmethod
    def _key_is_there(cls, name: str | None, info: ValidationInfo) -> str | None:
        # The name is not shown: by mistake it may be the key.
        if name is None:
            return None
        try:
            SGLang("http://127.0.0.1", api_key=(os.environ if info.context is None else info.context)[name])
        except KeyError:
            raise ValueError("must name an environment variable that is set (not shown: it may be a key)") from None
        except ValueError:
            what = "hold" if name == KEY_VARIABLE else "name an environment variable that holds"
            raise ValueError(f"must {what} visible ASCII characters without spaces (not shown)") from None
        return name

    def reader(self, env: Mapping[str, str] = os.environ) -> MetricsReader:
        """What reads the engine."""
        return _READERS[self.kind](self.url, api_key=env[self.api_key_env] if self.api_key_env else None)


class IdentityConfig(Section):
    """How agents are named to the engine."""

    header: HeaderName | None = "X-Session-ID"
    """HTTP header with the agent's id, in ``Agent.headers``; null for none."""


class LoggingConfig(Section):
    """What is told, and where."""

    level: LogLevel | None = None
    """Of the logger ``concur_agents``; null leaves it as the program has it."""
    events: EventsPath | None = None
    """File to which all events are appended as JSON lines, from the working folder; null for none."""


class Config(Section):
    """All of it."""

    engines: Annotated[
        tuple[EngineConfig, ...],
        Field(max_length=256),
        BeforeValidator(_as_tuple),
        AfterValidator(_once),
        Allowed("a list of at most 256 different engines"),
    ] = ()
    """The engines whose agents are controlled, each with a window of its own."""
    controller: ControllerUrl | None = None
    """A shared controller (concur serve) for frameworks that are configured by text alone; null: one a process."""
    law: LawConfig = BudgetLawConfig()
    """What decides the window: a block, or only a name."""
    tick: Annotated[AboveZero, Field(le=3600), Allowed("a number of seconds above 0, at most 3600")] = 1.0
    """Seconds between readings of the engine."""
    stale_after: Annotated[AboveZero, Allowed("a number of seconds above 0")] = 30.0
    """Seconds without news from the engine, while agents generate, before the fallback."""
    fallback: Window = math.inf
    """Agents that may be seated then."""
    history: Annotated[int, Field(ge=1, le=1_000_000_000), Allowed("a whole number from 1 to 1000000000")] = 1000
    """Changes of the window to remember."""
    identity: Annotated[IdentityConfig, Allowed("a block")] = IdentityConfig()
    """How agents are named to the engine."""
    logging: Annotated[LoggingConfig, Allowed("a block")] = LoggingConfig()
    """What is told, and where."""

    def parameters(self) -> dict[str, Any]:
        """What every kind of controller takes of it, by its parameters' names; which engines is for each to say."""
        return {
            "law": self.law.build(),
            "tick": self.tick,
            "stale_after": self.stale_after,
            "fallback": self.fallback,
            "history": self.history,
            "session_header": self.identity.header,
        }
