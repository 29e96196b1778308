"""The package as it is published."""

from __future__ import annotations

import importlib.metadata

import concur_agents_langgraph


def test_public_names_are_sorted_and_there() -> None:
    names = concur_agents_langgraph.__all__
    assert names == sorted(names)
    assert all(hasattr(concur_agents_langgraph, name) for name in names)


def test_installed_versions_are_within_what_the_package_claims() -> None:
    packaging = __import__("packaging.requirements", fromlist=["Requirement"])
    for line in importlib.metadata.requires("concur-agents-langgraph") or ():
        requirement = packaging.Requirement(line)
        assert requirement.specifier.contains(importlib.metadata.version(requirement.name))
