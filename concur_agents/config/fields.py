"""Types of fields: what is accepted, and how that is said."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema

from concur_agents.engines.url import engine_url

__all__ = [
    "AboveZero",
    "Allowed",
    "AtLeastZero",
    "ControllerUrl",
    "EventsPath",
    "HeaderName",
    "Kind",
    "LogLevel",
    "Section",
    "Share",
    "ShareAboveZero",
    "ShareBelowOne",
    "Url",
    "VariableName",
    "Window",
]


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a field may hold, in words that follow "must be"."""

    text: str


class Section(BaseModel):
    """A block of a configuration: frozen, and with no field that is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


def _finite(value: object) -> object:
    return math.inf if isinstance(value, str) and value == "unlimited" else value


def _unlimited(value: float) -> float | str:
    return "unlimited" if value == math.inf else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _plain_path(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _checked(url: str) -> str:
    try:
        engine_url(url)
    except ValueError as problem:  # its text shows the address without what may be secret
        raise ValueError(str(problem).removeprefix("url ").replace("api_key", "the variable of api_key_env")) from None
    return url


def _checked_controller(url: str) -> str:
    parts = urlsplit(_checked(url))
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user or a password (not shown): set CONCUR_TOKEN")
    return url


AboveZero = Annotated[float, Field(gt=0), Allowed("a number above 0")]
AtLeastZero = Annotated[float, Field(ge=0, allow_inf_nan=False), Allowed("a number of at least 0")]
Share = Annotated[float, Field(ge=0, le=1), Allowed("a number from 0 to 1")]
ShareBelowOne = Annotated[float, Field(ge=0, lt=1), Allowed("a number from 0, below 1")]
ShareAboveZero = Annotated[float, Field(gt=0, le=1), Allowed("a number above 0, at most 1")]

_WINDOW: dict[str, Any] = {"anyOf": [{"type": "number", "minimum": 1}, {"const": "unlimited", "type": "string"}]}
Window = Annotated[
    float,
    Field(ge=1),
    BeforeValidator(_finite),
    PlainSerializer(_unlimited),
    WithJsonSchema(_WINDOW),
    Allowed("unlimited or a number of agents of at least 1"),
]

Url = Annotated[str, AfterValidator(_checked), Allowed("an address like http://127.0.0.1:30000")]
ControllerUrl = Annotated[
    str, AfterValidator(_checked_controller), Allowed("an address like http://127.0.0.1:8400, or null")
]
Kind = Annotated[Literal["sglang", "vllm", "tensorrt_llm"], Allowed("sglang, vllm or tensorrt_llm")]
VariableName = Annotated[
    str,
    Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$"),
    Allowed("the name of an environment variable, which holds the key, or null"),
]
# What HTTP calls a token (RFC 9110); the controller checks the same.
HeaderName = Annotated[
    str, Field(pattern="^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"), Allowed("the name of an HTTP header, or null")
]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error", "critical"],
    BeforeValidator(_lower),
    Allowed("debug, info, warning, error, critical or null"),
]
EventsPath = Annotated[
    str,
    Field(min_length=1, pattern="^[^\\x00]+$"),
    BeforeValidator(_plain_path),
    Allowed("the path of a file, or null"),
]
