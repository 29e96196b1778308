"""The arms: how many agents may be active at a time. Everything else is the same in each.

An arm is written ``name`` or ``name:argument``; arms are separated by commas, and an argument may itself be a
list ``key=value,key=value``: ``uncontrolled,fixed:8,concur:alpha=4,beta=0.3``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from concur_agents.config import load_config
from concur_agents.laws import ConcurLaw, FixedWindow, Law, TokenBudget, Uncontrolled

__all__ = ["ARMS", "Arm", "parse_arms", "split_arms"]


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of admitting agents."""

    name: str
    """As the user wrote it; heads its figures."""
    law: Law
    """Pure, so it can serve every repeat."""


def uncontrolled(argument: str) -> Law:
    """Every agent at once."""
    if argument:
        raise ValueError(f"takes no argument, not {argument!r}")
    return Uncontrolled()


def fixed(argument: str) -> Law:
    """At most N agents at a time: ``fixed:8``."""
    try:
        return FixedWindow(int(argument))
    except ValueError as error:
        raise ValueError(f"needs a number of agents, as in fixed:8, not {argument!r} ({error})") from None


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


ARMS: dict[str, Callable[[str], Law]] = {
    "budget": budget,
    "concur": concur,
    "config": config,
    "fixed": fixed,
    "uncontrolled": uncontrolled,
}


def parse_arms(text: str) -> tuple[Arm, ...]:
    """The arms named in ``text``, in its order.

    Raises:
        ValueError: no arm, an unknown one, the same one twice, or an argument that its arm cannot read.
    """
    arms = [_parse_arm(name) for name in split_arms(text)]
    if not arms:
        raise ValueError("no arm given: name at least one, as in --arms uncontrolled,concur")
    names = [arm.name for arm in arms]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"arm {twice[0]!r} is given twice")
    return tuple(arms)


def split_arms(text: str) -> list[str]:
    """Split at commas, but leave ``key=value`` with the arm before it."""
    names: list[str] = []
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        head = piece.partition("=")[0]
        if "=" in piece and ":" not in head and names:
            names[-1] += f",{piece}"
        else:
            names.append(piece)
    return names


def _parse_arm(name: str) -> Arm:
    kind, _, argument = name.partition(":")
    make = ARMS.get(kind)
    if make is None:
        raise ValueError(f"unknown arm {name!r}: choose from {', '.join(sorted(ARMS))}")
    try:
        return Arm(name, make(argument))
    except ValueError as error:
        raise ValueError(f"arm {name!r} {error}") from None
