"""Laws by name, as all benchmarks take them: ``name`` or ``name:argument``.

Names are separated by commas, and an argument may itself be a list ``key=value,key=value``:
``uncontrolled,fixed:8,concur:alpha=4,beta=0.3``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from concur_agents.config import load_config
from concur_agents.laws import ConcurLaw, FixedWindow, Law, TokenBudget, Uncontrolled

__all__ = ["LAWS", "named", "number", "parse_laws", "split_names"]

_Made = TypeVar("_Made")


def uncontrolled(argument: str) -> Law:
    """Every agent at once."""
    if argument:
        raise ValueError(f"takes no argument, not {argument!r}")
    return Uncontrolled()


def fixed(argument: str) -> Law:
    """At most N agents at a time: ``fixed:8``."""
    return FixedWindow(number(argument, "agents, as in fixed:8"))


def concur(argument: str) -> Law:
    """The paper's law; ``concur:alpha=4,beta=0.3`` changes its parameters."""
    return _with_parameters(ConcurLaw, argument)


def budget(argument: str) -> Law:
    """A token budget; ``budget:margin=0.1`` changes its parameters."""
    return _with_parameters(TokenBudget, argument)


def config(argument: str) -> Law:
    """The law of a configuration file, as users have it: ``config:concur.yaml``."""
    if not argument:
        raise ValueError("needs a file, as in config:concur.yaml")
    return load_config(argument, engine=False).config.law.build()


LAWS: Mapping[str, Callable[[str], Law]] = MappingProxyType(
    {"budget": budget, "concur": concur, "config": config, "fixed": fixed, "uncontrolled": uncontrolled}
)
"""Makes a law of its argument; raises ValueError saying what is wrong with that."""


def parse_laws(text: str) -> tuple[tuple[str, Law], ...]:
    """The laws in ``text``, in its order, each with its name as it was written. Raises ValueError as :func:`named`."""
    return tuple((name, named(name, LAWS)) for name in split_names(text))


def split_names(text: str) -> tuple[str, ...]:
    """Split at commas, but leave ``key=value`` with the name before it.

    Raises:
        ValueError: no name, or the same one twice.
    """
    names: list[str] = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        head = piece.partition("=")[0]
        if "=" in piece and ":" not in head and names:
            names[-1] += f",{piece}"
        else:
            names.append(piece)
    if not names:
        raise ValueError("no arm given: name at least one, as in --arms uncontrolled,concur")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"arm {twice[0]!r} is given twice")
    return tuple(names)


def named(name: str, makers: Mapping[str, Callable[[str], _Made]]) -> _Made:
    """Make what ``name:argument`` says.

    Raises:
        ValueError: an unknown name, or an argument that its maker cannot read; quotes it.
    """
    kind, _, argument = name.partition(":")
    make = makers.get(kind)
    if make is None:
        raise ValueError(f"unknown arm {name!r}: choose from {', '.join(sorted(makers))}")
    try:
        return make(argument)
    except ValueError as error:
        raise ValueError(f"arm {name!r} {error}") from None


def number(argument: str, what: str) -> int:
    """A number of ``what``, of at least 1. Raises ValueError."""
    try:
        count = int(argument)
    except ValueError:
        raise ValueError(f"needs a number of {what}, not {argument!r}") from None
    if count < 1:
        raise ValueError(f"needs a number of {what}, of at least 1, not {count}")
    return count


def _with_parameters(law: Callable[..., Law], argument: str) -> Law:
    parameters: dict[str, float] = {}
    for pair in filter(None, argument.split(",")):
        key, sign, value = pair.partition("=")
        try:
            parameters[key.strip()] = float(value)
        except ValueError:
            raise ValueError(f"needs key=number, not {pair!r}") from None
        if not sign:
            raise ValueError(f"needs key=number, not {pair!r}")
    try:
        return law(**parameters)
    except TypeError:
        raise ValueError(f"has no such parameter: {', '.join(parameters)}") from None
