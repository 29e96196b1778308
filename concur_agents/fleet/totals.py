"""Several engines' statistics as one's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from concur_agents.samples import Outcome, Population, Stats

__all__ = ["total"]


def total(by_engine: Mapping[str, Stats]) -> Stats:
    """All of them together: counts and windows are added, problems named with their engines.

    What cannot be added is left out, a single engine's reading first of all. An agent that has moved counts as
    cancelled at the engine that it left.

    Raises:
        ValueError: there is none.
    """
    if not by_engine:
        raise ValueError("by_engine must hold at least one engine's statistics")
    each = tuple(by_engine.values())
    finished: Counter[Outcome] = Counter()
    for one in each:
        finished.update(one.finished)
    ages = [one.sample_age_s for one in each]
    return Stats(
        at=max(one.at for one in each),
        window=sum(one.window for one in each),
        reason=each[0].reason,
        population=_population([one.population for one in each]),
        known=sum(one.known for one in each),
        finished=MappingProxyType(dict(finished)),
        sample=None,
        sample_age_s=None if None in ages else max(age for age in ages if age is not None),
        problem="; ".join(f"{url}: {one.problem}" for url, one in by_engine.items() if one.problem) or None,
        prompt_tokens=sum(one.prompt_tokens for one in each),
        cached_tokens=_known(one.cached_tokens for one in each),
        output_tokens=sum(one.output_tokens for one in each),
        recomputed_tokens=_known(one.recomputed_tokens for one in each),
    )


def _population(each: list[Population]) -> Population:
    return Population(
        window=sum(one.window for one in each),
        tokens=sum(one.tokens for one in each),
        held=sum(one.held for one in each),
        seated=sum(one.seated for one in each),
        generating=sum(one.generating for one in each),
        in_tool=sum(one.in_tool for one in each),
        parked=sum(one.parked for one in each),
        waiting=sum(one.waiting for one in each),
    )


def _known(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
