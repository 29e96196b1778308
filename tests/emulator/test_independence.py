import ast
from pathlib import Path

import concur_agents.emulator

SOURCES = sorted(Path(concur_agents.emulator.__file__).parent.rglob("*.py"))


def imported(source: Path) -> set[str]:
    """Every module a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}: relative imports hide what is imported"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_the_emulator_imports_nothing_else_of_ours() -> None:
    ours = {name for source in SOURCES for name in imported(source) if name.split(".")[0] == "concur_agents"}
    assert len(SOURCES) > 10
    assert all(name.startswith("concur_agents.emulator.") for name in ours), ours


def test_public_names_are_sorted_and_there() -> None:
    names = concur_agents.emulator.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), name))
    assert all(hasattr(concur_agents.emulator, name) for name in names)
