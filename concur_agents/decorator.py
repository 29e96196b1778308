"""``@concur.agent``: a function each of whose calls is one agent."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from types import TracebackType
from typing import Any, Protocol, TypeVar

from concur_agents.adapters import AgentRun
from concur_agents.agents import INHERIT, Agents, Inherit, keeping_current

__all__ = ["Decorated", "Decorator", "decorator"]

# The whole callable, and not its parameters and result: what is decorated keeps its overloads and its kind.
Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_RunOf = Callable[[tuple[Any, ...], dict[str, Any]], AgentRun]


class Decorator(Protocol):
    """Takes a function and returns one that is called in the same way."""

    def __call__(self, function: Decorated, /) -> Decorated:
        """Decorate ``function``."""


def decorator(
    agents: Agents, id_of: Callable[..., str] | None = None, parent: str | Inherit | None = INHERIT
) -> Decorator:
    """Make each call of a function one agent, finished when the call ends, however it ends.

    For ``async def``, ``def`` and generators of both; a generator's agent begins with its first item and ends when the
    generator is exhausted, closed or collected. Failures of Concur's own never reach the function.

    Args:
        agents: a ``Controller``.
        id_of: the agent's id, from the arguments of the call; made up when None.
        parent: as for ``Controller.agent``.
    """

    def run_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> AgentRun:
        return AgentRun(agents, None if id_of is None else id_of(*args, **kwargs), parent=parent)

    def decorate(function: Any, /) -> Any:
        if inspect.isasyncgenfunction(function):
            call: Any = _async_generator(function, run_of)
        elif inspect.isgeneratorfunction(function):
            call = _generator(function, run_of)
        elif inspect.iscoroutinefunction(function):
            call = _asynchronous(function, run_of)
        else:
            call = _blocking(function, run_of)
        return functools.wraps(function)(call)

    return decorate


def _asynchronous(function: Any, run_of: _RunOf) -> Any:
    async def call(*args: Any, **kwargs: Any) -> Any:
        # Also where the agent could not be begun: requests name it to the engine all the same.
        with run_of(args, kwargs) as run, run.inside():
            return await function(*args, **kwargs)

    return call


def _blocking(function: Any, run_of: _RunOf) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        with run_of(args, kwargs) as run, run.inside():
            return function(*args, **kwargs)

    return call


def _async_generator(function: Any, run_of: _RunOf) -> Any:
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        with _Aside(run_of(args, kwargs)) as run:
            generator = function(*args, **kwargs)
            resume = functools.partial(generator.asend, None)
            try:
                while True:
                    with run.inside():
                        try:
                            item = await resume()
                        except StopAsyncIteration:
                            return
                    try:
                        resume = functools.partial(generator.asend, (yield item))
                    except GeneratorExit:
                        raise
                    except BaseException as error:  # noqa: BLE001 - the function's own to deal with
                        resume = functools.partial(generator.athrow, error)
            finally:
                with run.inside():
                    await generator.aclose()

    return call


def _generator(function: Any, run_of: _RunOf) -> Any:
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with _Aside(run_of(args, kwargs)) as run:
            generator = function(*args, **kwargs)
            resume = functools.partial(generator.send, None)
            try:
                while True:
                    with run.inside():
                        try:
                            item = resume()
                        except StopIteration as end:
                            return end.value
                    try:
                        resume = functools.partial(generator.send, (yield item))
                    except GeneratorExit:
                        raise
                    except BaseException as error:  # noqa: BLE001 - the function's own to deal with
                        resume = functools.partial(generator.throw, error)
            finally:
                with run.inside():
                    generator.close()

    return call


class _Aside:
    """A generator's run. Whoever iterates goes on in a context of their own: only ``run.inside()`` is the agent's."""

    def __init__(self, run: AgentRun) -> None:
        self._run = run

    def __enter__(self) -> AgentRun:
        with keeping_current():
            return self._run.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with keeping_current():
            self._run.__exit__(kind, error, traceback)
