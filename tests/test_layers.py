"""One way down: a lower layer never imports a higher one, and the core stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import concur_agents

ROOT = Path(concur_agents.__file__).parent

# Units of each layer, lowest first. A unit is a module or a package directly in concur_agents.
LAYERS = [
    ["errors"],
    ["samples", "usage", "families", "forecast"],
    ["laws", "aging", "meter", "engines", "scatter"],
    ["admission"],
    ["governor", "events", "config"],
    ["turns", "eventlog", "seats"],
    ["waits"],
    ["limiter"],
    ["steps"],
    ["agents"],
    ["adapters", "routing"],
    ["clients", "decorator"],
    ["base"],
    ["remote"],
    ["controller"],
    ["fleet"],
    ["shared"],
    ["testing"],
    ["gateway"],
    ["cli"],
]
RANK = {unit: rank for rank, units in enumerate(LAYERS) for unit in units}
ALONE = "emulator"
"""An independent check of the rest, so it shares nothing with it; the command line and the contract start it."""
CORE = [unit for unit in RANK if unit not in ("cli", "gateway", "remote")]
CORE_MAY_IMPORT = {"prometheus_client", "urllib3"}
CONFIG_MAY_IMPORT = {"pydantic", "yaml"}
"""An extra's; only the config package names them, and importing the core does not load them."""
FILES = sorted(ROOT.rglob("*.py"))


def unit(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Every module the file names in an import, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names.add(node.module or "")
            if node.module == "concur_agents":
                names.update(f"concur_agents.{alias.name}" for alias in node.names)
    return names


def own(path: Path) -> set[str]:
    """Units of ours that the file imports."""
    return {name.split(".")[1] for name in imported(path) if name.startswith("concur_agents.")}


def test_every_unit_has_its_layer() -> None:
    units = {unit(path) for path in FILES} - {"__init__"}
    assert units == {*RANK, ALONE}, "give a new unit its layer above"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down_only(path: Path) -> None:
    this = unit(path)
    if this == "__init__":
        return
    if this == ALONE:
        ours = {name for name in imported(path) if name.split(".")[0] == "concur_agents"}
        assert {name for name in ours if not name.startswith("concur_agents.emulator")} == set()
        return
    allowed = {this, *(each for each, rank in RANK.items() if rank < RANK[this])}
    if this in ("cli", "testing"):
        allowed.add(ALONE)
    assert own(path) <= allowed
    assert "concur_agents" not in imported(path), "import from the module that defines the name"


def test_configuration_knows_only_what_it_configures() -> None:
    used = {name for path in FILES if unit(path) == "config" for name in own(path)}
    assert used <= {"config", "engines", "errors", "laws", "samples"}


@pytest.mark.parametrize(
    "path", [path for path in FILES if unit(path) in CORE], ids=lambda path: str(path.relative_to(ROOT))
)
def test_core_needs_only_its_two_libraries(path: Path) -> None:
    foreign = {name.split(".")[0] for name in imported(path)} - set(sys.stdlib_module_names) - {"concur_agents"}
    assert foreign <= CORE_MAY_IMPORT | (CONFIG_MAY_IMPORT if unit(path) == "config" else set())


def test_core_works_where_nothing_else_is_installed() -> None:
    """Also what its libraries drag in: importing the core loads nothing but these two."""
    code = (
        "import sys; before = set(sys.modules); import concur_agents, concur_agents.engines, concur_agents.testing;"
        "import concur_agents.config;"
        "print(*{name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    helpers_of_urllib3 = {"brotli", "brotlicffi", "zstandard", "backports", "_brotli", "_cffi_backend"}
    assert set(loaded) - helpers_of_urllib3 <= {"concur_agents", *CORE_MAY_IMPORT}
