"""Which AgentScope is installed, and which Concur is meant."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final, NoReturn

__all__ = ["AGENTSCOPE_2", "for_other_line", "is_2"]


def is_2() -> bool:
    """Whether AgentScope 2.x is installed; False for 1.x.

    Raises:
        ImportError: neither is.
    """
    try:
        found = version("agentscope")
    except PackageNotFoundError:
        found = "none"
    major = found.partition(".")[0]
    if major not in ("1", "2"):
        raise ImportError(
            f"concur-agents-agentscope needs AgentScope 1.x or 2.x, found {found}: "
            'pip install "agentscope>=2,<3", or "agentscope>=1.0.21,<2"'
        )
    return major == "2"


AGENTSCOPE_2: Final[bool] = is_2()


def for_other_line(name: str, instead: str) -> NoReturn:
    """Say that ``name`` is for the other line of AgentScope, and what is for this one.

    Raises:
        RuntimeError: always.
    """
    other = "1.x" if AGENTSCOPE_2 else "2.x"
    raise RuntimeError(
        f"{name} is for AgentScope {other}; AgentScope {version('agentscope')} is installed: use {instead}"
    )
