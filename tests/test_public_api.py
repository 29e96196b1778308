"""What users can reach: named, sorted, documented, and silent at import."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import concur_agents
import concur_agents.config
import concur_agents.engines
import concur_agents.laws
from concur_agents import agents, controller, errors, events, samples, testing, usage

ROOT = Path(concur_agents.__file__).parent
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages([str(ROOT)], "concur_agents.")
    if not any(part.startswith("_") for part in module.name.split("."))
)
CORE = [
    "concur_agents",
    *(name for name in MODULES if name.split(".")[1] not in ("cli", "emulator", "gateway", "remote")),
]
PUBLIC = [concur_agents, concur_agents.config, concur_agents.laws, concur_agents.engines]
PUBLIC += [agents, controller, errors, events, samples, testing, usage]


def defined(path: Path) -> set[str]:
    """Public names a file binds at its top; in a package's ``__init__`` those are what it imports."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.ImportFrom(module=str(module)) if path.name == "__init__.py" and module != "__future__":
                names.update(alias.asname or alias.name for alias in node.names)
    return {name for name in names if not name.startswith("_")}


def order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions: the order ruff keeps."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("name", ["concur_agents", *MODULES])
def test_all_is_sorted_and_says_what_is_there(name: str) -> None:
    source = importlib.util.find_spec(name)
    assert source is not None
    assert source.origin is not None
    path = Path(source.origin)
    named = [
        ast.literal_eval(node.value)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
    ]
    assert len(named) == 1, "one literal __all__"
    assert named[0] == sorted(named[0], key=order)
    assert set(named[0]) <= defined(path)
    # Inside the emulator, the gateway and the command line a module may have names that are nobody else's.
    assert set(named[0]) == defined(path) or name not in CORE


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_every_public_name_resolves_and_is_documented(module: ModuleType) -> None:
    assert module.__doc__
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, name
        if inspect.isclass(value) and value.__module__.startswith("concur_agents"):
            undocumented = [
                f"{name}.{member}"
                for member, it in vars(value).items()
                if not member.startswith("_")
                and (inspect.isfunction(it) or isinstance(it, property | classmethod | staticmethod))
                and not inspect.getdoc(it)
            ]
            assert undocumented == []


def test_issue_names_are_there() -> None:
    from concur_agents import ConcurLaw, Controller, FixedWindow, Uncontrolled
    from concur_agents.engines import SGLang

    with Controller(SGLang("http://127.0.0.1:1"), law=ConcurLaw(), background=False) as concur:
        assert concur.stats().window == float("inf")
    assert (FixedWindow(1).n, Uncontrolled().initial) == (1, float("inf"))


WATCH = """
import sys, threading
import prometheus_client, urllib3  # what they do is their own affair: urllib3 tries whether there is IPv6
noise = []
def hear(event, args):
    if event.startswith(("socket.", "subprocess.", "os.system")) or event == "_thread.start_new_thread":
        noise.append(event)
sys.addaudithook(hear)
threading.Thread.start = lambda self: noise.append("thread")
import logging
handlers = list(logging.getLogger().handlers)
for name in sys.argv[1:]:
    __import__(name)
assert not noise, noise
assert logging.getLogger().handlers == handlers
"""


def test_nothing_runs_at_import() -> None:
    """No thread, no socket, no process, no log handler."""
    done = subprocess.run([sys.executable, "-c", WATCH, *CORE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")


def test_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
    assert version("concur-agents") == project["version"]


def test_types_are_shipped() -> None:
    assert (ROOT / "py.typed").exists()
