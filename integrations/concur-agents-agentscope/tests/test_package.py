"""What is chosen by the version that is installed."""

from __future__ import annotations

import ast
import importlib.metadata
import sys
from pathlib import Path

import pytest

import concur_agents_agentscope
from concur_agents_agentscope import ConcurMiddleware, _installed, install, uninstall


def test_the_line_that_is_installed_is_taken():
    two = importlib.metadata.version("agentscope").startswith("2.")
    assert _installed.AGENTSCOPE_2 is two
    module = concur_agents_agentscope.enable.__module__
    assert module == f"concur_agents_agentscope._v{2 if two else 1}"


@pytest.mark.parametrize("found", ["0.1.6", "3.0.0", None])
def test_another_version_or_none_is_said_so(monkeypatch, found):
    def version(name):
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(_installed, "version", version)
    with pytest.raises(ImportError, match=f"needs AgentScope 1.x or 2.x, found {found or 'none'}"):
        _installed.is_2()


@pytest.mark.parametrize(("found", "two"), [("1.0.21", False), ("2.0.11", True), ("2.1.0rc1", True)])
def test_the_major_version_decides(monkeypatch, found, two):
    monkeypatch.setattr(_installed, "version", lambda _: found)
    assert _installed.is_2() is two


def test_the_other_lines_names_say_what_to_use():
    if _installed.AGENTSCOPE_2:
        with pytest.raises(RuntimeError, match=r"install\(\) is for AgentScope 1.x.*use Agent\(..., middlewares="):
            install(object(), None)
        with pytest.raises(RuntimeError, match=r"uninstall\(\) is for AgentScope 1.x"):
            uninstall(object())
    else:
        with pytest.raises(RuntimeError, match=r"ConcurMiddleware is for AgentScope 2.x.*use install\(agent, concur\)"):
            ConcurMiddleware(None)


def test_only_agentscope_and_concur_are_imported():
    imported = set()
    for path in Path(concur_agents_agentscope.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    assert imported - sys.stdlib_module_names == {"agentscope", "concur_agents", "concur_agents_agentscope"}
