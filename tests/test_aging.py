"""Families by age, against a list that is sorted each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from concur_agents.aging import ByAge
from concur_agents.families import Family

FAMILIES = [Family(root=f"agent{number}", age=number) for number in range(12)]
MOVES = st.lists(st.tuples(st.booleans(), st.sampled_from(FAMILIES)), max_size=400)


@given(moves=MOVES, youngest=st.booleans())
def test_the_first_is_the_oldest_or_youngest_of_those_that_are_there(
    moves: list[tuple[bool, Family]], *, youngest: bool
) -> None:
    ages, there = ByAge(youngest=youngest), set[Family]()
    for comes, family in moves:
        if comes:
            ages.add(family)
            there.add(family)
        else:
            ages.discard(family)
            there.discard(family)
        by_age = sorted(there, key=lambda each: each.age, reverse=youngest)
        assert ages.first() is (by_age[0] if by_age else None)
        assert len(ages) == len(there)
        assert bool(ages) == bool(there)


def test_nobody_is_first_of_none() -> None:
    assert ByAge().first() is None


def test_coming_twice_is_coming_once() -> None:
    ages = ByAge()
    ages.add(FAMILIES[0])
    ages.add(FAMILIES[0])
    ages.discard(FAMILIES[0])
    ages.discard(FAMILIES[0])
    assert ages.first() is None


def test_who_is_gone_is_not_held_for_long() -> None:
    """Whoever is behind the first would else stay in the heap until it goes."""
    ages = ByAge()
    ages.add(FAMILIES[0])
    for number in range(1, 10_000):
        family = Family(root="passing", age=number)
        ages.add(family)
        ages.discard(family)
    assert len(ages._heap) < 100
