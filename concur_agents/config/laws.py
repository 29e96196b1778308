"""The law's block: a model for each law, with the ranges and defaults of the law itself."""

from __future__ import annotations

import importlib
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from concur_agents.config.fields import (
    AboveZero,
    Allowed,
    AtLeastZero,
    Section,
    Share,
    ShareAboveZero,
    ShareBelowOne,
    Window,
)
from concur_agents.config.shorthand import DEFAULT_LAW
from concur_agents.laws import ConcurLaw, FixedWindow, Law, TokenBudget, Uncontrolled

__all__ = [
    "LAWS",
    "BudgetLawConfig",
    "ConcurLawConfig",
    "FixedLawConfig",
    "LawConfig",
    "OwnLawConfig",
    "UncontrolledLawConfig",
]

_CONCUR = ConcurLaw()
_OWN = "own"
_BUDGET = TokenBudget()
_NAMES = "budget, concur, fixed, uncontrolled or package.module:Class"


class BudgetLawConfig(Section):
    """A token budget."""

    name: Annotated[Literal["budget"], Allowed(_NAMES)] = "budget"
    """Which law."""
    margin: ShareBelowOne = _BUDGET.margin
    """Share of the KV pool left free."""
    ahead: AtLeastZero = _BUDGET.ahead
    """How far to look ahead when one more is seated, in times that it takes to prefill the whole pool."""
    patience: AboveZero = _BUDGET.patience
    """How long an agent keeps its seat in a tool while others wait, in the same."""
    lost: Share = _BUDGET.lost
    """Share of kept contexts lost above which less of the pool is trusted to be ours."""

    def build(self) -> Law:
        """The law."""
        return TokenBudget(margin=self.margin, ahead=self.ahead, patience=self.patience, lost=self.lost)


class ConcurLawConfig(Section):
    """The paper's law."""

    name: Annotated[Literal["concur"], Allowed(_NAMES)]
    """Which law."""
    alpha: AboveZero = _CONCUR.alpha
    """Agents added per growth."""
    beta: ShareAboveZero = _CONCUR.beta
    """Share of the window taken per cut."""
    u_low: Share = _CONCUR.u_low
    """Grow below this pinned KV usage."""
    u_high: Annotated[Share, Field(validate_default=True), Allowed("a number from u_low to 1")] = _CONCUR.u_high
    """Cut only above this pinned KV usage."""
    h_thresh: Share = _CONCUR.h_thresh
    """Cut only below this cache hit rate."""
    start: Window = _CONCUR.start
    """First window."""

    @field_validator("u_high")
    @classmethod
    def _above_u_low(cls, u_high: float, info: ValidationInfo) -> float:
        u_low = info.data.get("u_low", 0.0)  # not there when it is wrong itself
        if u_high < u_low:
            raise ValueError(f"must be a number from u_low ({u_low:g}) to 1, got {u_high:g}")
        return u_high

    def build(self) -> Law:
        """The law."""
        return ConcurLaw(
            alpha=self.alpha,
            beta=self.beta,
            u_low=self.u_low,
            u_high=self.u_high,
            h_thresh=self.h_thresh,
            start=self.start,
        )


class FixedLawConfig(Section):
    """Always the same number of agents."""

    name: Annotated[Literal["fixed"], Allowed(_NAMES)]
    """Which law."""
    n: Window
    """Agents that may be seated."""

    def build(self) -> Law:
        """The law."""
        return FixedWindow(self.n)


class UncontrolledLawConfig(Section):
    """No limit."""

    name: Annotated[Literal["uncontrolled"], Allowed(_NAMES)]
    """Which law."""

    def build(self) -> Law:
        """The law."""
        return Uncontrolled()


class OwnLawConfig(Section):
    """A law of your own, by where its class is; the other fields are its arguments."""

    model_config = ConfigDict(extra="allow")

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$"), Allowed(_NAMES)]
    """``package.module:Class``."""

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        self.build()
        return self

    def build(self) -> Law:
        """The law.

        Raises:
            ValueError: its class cannot be imported or called, or makes no law.
        """
        module, _, name = self.name.partition(":")
        try:
            made = getattr(importlib.import_module(module), name)
        except Exception as error:  # a user's module may raise anything when it is imported
            raise ValueError(f"cannot be imported from {self.name!r}: {type(error).__name__}: {error}") from error
        try:
            law = made(**(self.model_extra or {}))
        except Exception as error:  # the same for a user's class
            raise ValueError(f"cannot be made by {self.name!r}: {type(error).__name__}: {error}") from error
        if not callable(getattr(law, "decide", None)) or not isinstance(getattr(law, "initial", None), int | float):
            raise ValueError(f"must be a law: what {self.name!r} makes has no decide() and initial")
        return cast("Law", law)


LAWS: dict[str, type[BudgetLawConfig | ConcurLawConfig | FixedLawConfig | UncontrolledLawConfig]] = {
    "budget": BudgetLawConfig,
    "concur": ConcurLawConfig,
    "fixed": FixedLawConfig,
    "uncontrolled": UncontrolledLawConfig,
}


def _which(value: Any) -> str | None:
    """The name of the model for a law's block; None where there is none."""
    name = value.get("name", DEFAULT_LAW) if isinstance(value, dict) else getattr(value, "name", None)
    if not isinstance(name, str):
        return None
    return name if name in LAWS else _OWN if ":" in name else None


LawConfig = Annotated[
    Annotated[BudgetLawConfig, Tag("budget")]
    | Annotated[ConcurLawConfig, Tag("concur")]
    | Annotated[FixedLawConfig, Tag("fixed")]
    | Annotated[UncontrolledLawConfig, Tag("uncontrolled")]
    | Annotated[OwnLawConfig, Tag(_OWN)],
    Discriminator(_which),
    Allowed(_NAMES),
]
