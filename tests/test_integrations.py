"""Everything of an adapter is in one folder, has the same parts, and imports its own framework and no other."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INTEGRATIONS = sorted(path.parent for path in (ROOT / "integrations").glob("*/pyproject.toml"))
# What a distribution is imported as, where it is not its own name.
IMPORTED_AS = {
    "concur-agents": {"concur_agents"},
    "langchain": {"langchain"},
    "langchain-core": {"langchain_core"},
    "mini-swe-agent": {"minisweagent"},
    "openai-agents": {"agents", "openai"},
    "pydantic-ai-slim": {"pydantic_ai", "pydantic"},
}
SMALL = 140
"""Lines of code, without blank ones, comments and docstrings, that an adapter has at most."""
LARGE = {"concur-agents-agentscope", "concur-agents-langgraph"}
"""Two major versions; graphs in graphs in threads."""

PLATFORMS = {"concur-agents-ray"}
"""What agents run on, not what they are made of: it brings seats to other processes, and wraps no framework."""

each_integration = pytest.mark.parametrize("folder", INTEGRATIONS, ids=lambda folder: folder.name)
each_adapter = pytest.mark.parametrize(
    "folder", [each for each in INTEGRATIONS if each.name not in PLATFORMS], ids=lambda folder: folder.name
)


def package(folder: Path) -> Path:
    return folder / folder.name.replace("-", "_")


def own_and_declared(folder: Path) -> set[str]:
    declared = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    names = {package(folder).name}
    for dependency in declared["dependencies"]:
        match = re.match(r"[A-Za-z0-9-]+", dependency)
        assert match
        names |= IMPORTED_AS.get(match[0], {match[0].replace("-", "_")})
    return names


@each_integration
def test_imports_its_own_framework_and_no_other(folder: Path) -> None:
    allowed = own_and_declared(folder) | set(sys.stdlib_module_names)
    for path in package(folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {node.module or ""}
            else:
                continue
            foreign = {name.split(".")[0] for name in names} - allowed
            assert not foreign, f"{path.name} imports {foreign}, which {folder.name} does not depend on"


@each_adapter
def test_has_the_parts_an_adapter_has(folder: Path) -> None:
    page = (folder / "README.md").read_text()
    for heading in ("## The change", "## What happens at each boundary", "## What is not covered"):
        assert heading in page, f"{folder.name}/README.md has no {heading!r}"
    assert (package(folder) / "py.typed").exists()
    assert (folder / "tox.toml").exists()
    assert list((folder / "tests").rglob("test_contract.py")), f"{folder.name} has no contract test"
    assert folder.name in (ROOT / "docs" / "frameworks" / "README.md").read_text(), "name it in docs/frameworks"


@each_adapter
def test_is_small(folder: Path) -> None:
    if folder.name in LARGE:
        return
    lines = sum(lines_of_code(path.read_text()) for path in package(folder).rglob("*.py"))
    assert lines <= SMALL, f"{folder.name} has {lines} lines of code"


def lines_of_code(source: str) -> int:
    documentation: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documentation.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING):
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - documentation)
