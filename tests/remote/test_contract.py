"""Every guarantee of the adapters' contract with a controller far away: the same runs, over HTTP.

The test looks at the controller itself. A boundary is told in the background, so a tool here first waits until it is.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import importlib.util
import inspect
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import concur_agents
from concur_agents import Controller, FleetController
from concur_agents.remote.client import RemoteController
from concur_agents.remote.desk import Desk
from concur_agents.remote.server import EmbeddedService
from concur_agents.testing import AdapterContract, Scene

ROOT = Path(concur_agents.__file__).parent.parent
_served: weakref.WeakKeyDictionary[Controller, tuple[EmbeddedService, RemoteController]] = weakref.WeakKeyDictionary()


class Running:
    """A play's controller, which the play begins and ends."""

    def __init__(self, controller: Controller | FleetController) -> None:
        self.limiter, self.stats, self.history = controller.limiter, controller.stats, controller.history
        if isinstance(controller, FleetController):
            self.all_engines, self.stats_of, self.follow = (
                controller.all_engines,
                controller.stats_of,
                controller.follow,
            )

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass


def far_away(controller: Controller | FleetController) -> RemoteController:
    """The same controller, over HTTP."""
    if controller not in _served:
        served = Running(controller)
        service = EmbeddedService(served, Desk(served))
        service.__enter__()
        _served[controller] = service, Controller.connect(service.url, patience_s=20)
    return _served[controller][1]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    for service, remote in _served.values():
        remote.close()
        service.__exit__(None, None, None)
    _served.clear()


def at_a_distance(scene: Scene) -> Scene:
    remote = far_away(scene.controller)

    @functools.wraps(scene.tool)
    async def tool(text: str) -> str:
        await asyncio.to_thread(remote.flush)
        result: str = await scene.tool(text)
        return result

    @functools.wraps(scene.blocking_tool)
    def blocking_tool(text: str) -> str:
        remote.flush()
        return scene.blocking_tool(text)

    return dataclasses.replace(scene, controller=remote, tool=tool, blocking_tool=blocking_tool)


def told(scene: Scene) -> None:
    far_away(scene.controller).flush()


def wrapped(method: Any) -> Any:
    """The same method, of a scene at a distance; at its end everything is told."""
    if inspect.isasyncgenfunction(method):

        async def stream(self: Any, scene: Scene) -> Any:
            items = method(self, at_a_distance(scene))
            try:
                async for item in items:
                    yield item
            finally:
                await items.aclose()
                told(scene)

        return stream
    if inspect.iscoroutinefunction(method):

        async def arun(self: Any, scene: Scene) -> Any:
            try:
                return again(await method(self, at_a_distance(scene)), scene)
            finally:
                told(scene)

        return arun
    if inspect.isgeneratorfunction(method):

        def items(self: Any, scene: Scene) -> Any:
            try:
                yield from method(self, at_a_distance(scene))
            finally:
                told(scene)

        return items

    def run(self: Any, scene: Scene) -> Any:
        try:
            return again(method(self, at_a_distance(scene)), scene)
        finally:
            told(scene)

    return run


def again(result: Any, scene: Scene) -> Any:
    """What ``ask`` returns is called later, and then too everything is told."""
    if not inspect.isroutine(result):
        return result

    def answer() -> Any:
        outcome = result()
        if not inspect.isawaitable(outcome):
            told(scene)
            return outcome

        async def finish() -> Any:
            try:
                return await outcome
            finally:
                told(scene)

        return finish()

    return answer


def remote(contract: Any, name: str) -> Any:
    methods = {each: wrapped(getattr(contract, each)) for each in ("run", "stream", "ask") if each in vars(contract)}
    title = f"{contract.title or contract.__name__}, remote controller"
    return type(name, (contract,), methods | {"title": title, "__module__": __name__, "__qualname__": name})


def contracts(path: Path) -> list[Any]:
    """The adapters that a test module has; tests cannot import each other."""
    spec = importlib.util.spec_from_file_location(f"remote_{path.parent.parent.name}".replace("-", "_"), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, AdapterContract)]


for _path, _most in (
    (ROOT / "tests" / "contract" / "test_hand_written.py", 9),
    (ROOT / "integrations" / "concur-agents-langgraph" / "tests" / "test_contract.py", 1),
):
    _found = contracts(_path) if _path.exists() else []  # a source archive has no integrations
    for _contract in [each for each in _found if not inspect.isabstract(each)][:_most]:
        _name = f"{_contract.__name__}Remote"
        globals()[_name] = remote(_contract, _name)
