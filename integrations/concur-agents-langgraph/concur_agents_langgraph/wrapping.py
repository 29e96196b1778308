"""The one line round an agent: whatever ends a run, its agents end with it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel

from concur_agents import BaseController
from concur_agents_langgraph.runs import Run

__all__ = ["wrap"]

GraphT = TypeVar("GraphT", bound=Pregel[Any, Any, Any, Any])


def wrap(agent: GraphT, controller: BaseController, *, park_on_interrupt: bool = True) -> GraphT:
    """A copy of a compiled graph whose every run is an agent of ``controller`` that ends when the run ends.

    ::

        agent = wrap(create_agent(model, tools, middleware=[ConcurMiddleware(concur)]), concur)

    It stays a graph of the same kind: ``invoke``, ``stream``, ``batch``, their async forms, events, state, use as a
    subgraph or inside a tool, all work as before. Success, an error from anywhere, cancellation, a stream that is
    dropped and the recursion limit finish the agent with its outcome; an interrupt parks it until it is resumed.

    The agent's id is the run's ``thread_id``, or made up where there is none. Inside another wrapped run the agent is
    a sub-agent: it shares that one's seat.

    Args:
        agent: a compiled LangGraph graph; wrapping twice with the same controller changes nothing.
        controller: the one given to the graph's ``ConcurMiddleware``.
        park_on_interrupt: an interrupted agent stays known, without a seat, and when its thread goes on it comes before
            agents that have not begun. False ends it, as completed, and whoever goes on with the thread asks as a new
            agent: for servers whose next run of a thread may be another process's.

    Raises:
        TypeError: ``agent`` is no compiled graph.
        ValueError: it is wrapped with another controller already.
    """
    given: object = agent
    if isinstance(given, _Wrapped):
        if given.concur_controller is not controller:
            raise ValueError("wrap: this graph is wrapped with another controller already")
        return agent
    if not isinstance(given, Pregel):
        raise TypeError(
            f"wrap takes a compiled graph (create_agent(...) or StateGraph.compile()), got {type(given).__name__}: "
            "wrap the graph first, and put retries and the like around the result"
        )
    kind = type(f"Concur{type(agent).__name__}", (_Wrapped, type(agent)), {"__module__": __name__})
    parts = {name: value for name, value in vars(agent).items() if name != "__orig_class__"}
    wrapped: GraphT = kind(concur_controller=controller, concur_park=park_on_interrupt, **parts)
    return wrapped


class _Wrapped:
    """Mixed into the graph's own class: every way to run a graph goes through ``stream`` or ``astream``.

    The two attributes are constructor arguments because a graph copies itself (``with_config`` and others) by passing
    all its attributes to its class.
    """

    def __init__(self, *, concur_controller: BaseController, concur_park: bool, **parts: Any) -> None:
        super().__init__(**parts)
        self.concur_controller = concur_controller
        self.concur_park = concur_park

    config: RunnableConfig | None
    name: str

    def stream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> Iterator[Any]:  # noqa: A002 - LangGraph's name for it
        """See ``Pregel.stream``."""
        with self._run(config) as run:
            chunks = super().stream(input, run.config(config), **options)  # type: ignore[misc]
            try:
                while True:
                    with run.inside():
                        chunk = next(chunks, _END)
                    if chunk is _END:
                        return
                    run.interrupted |= _asks_person(chunk)
                    yield chunk
            except GeneratorExit:
                # Closing waits for the graph's threads, and one of them may be waiting for a seat.
                run.abandon()
                raise
            finally:
                with run.inside():
                    chunks.close()

    async def astream(self, input: Any, config: RunnableConfig | None = None, **options: Any) -> AsyncIterator[Any]:  # noqa: A002 - as above
        """See ``Pregel.astream``."""
        with self._run(config, on_loop=True) as run:
            chunks = super().astream(input, run.config(config), **options)  # type: ignore[misc]
            try:
                while True:
                    with run.inside():
                        chunk = await anext(chunks, _END)
                    if chunk is _END:
                        return
                    run.interrupted |= _asks_person(chunk)
                    yield chunk
            finally:
                # A dropped stream that was part of a reference cycle has both generators closed by the collector.
                if not chunks.ag_running:
                    await chunks.aclose()

    @contextlib.contextmanager
    def _run(self, config: RunnableConfig | None, *, on_loop: bool = False) -> Iterator[Run]:
        run = Run.begin(self.concur_controller, self.config, config, on_loop=on_loop, park=self.concur_park)
        error: BaseException | None = None
        try:
            yield run
        except BaseException as raised:
            error = raised
            raise
        finally:
            controlled = bool(run.members)
            run.end(error)
            if error is None and not controlled:
                run.faults.say(
                    f"uncontrolled:{self.name}",
                    f"a run of the wrapped graph {self.name!r} called no model through Concur: give create_agent("
                    "middleware=[ConcurMiddleware(controller)]), build the graph with add_concur, or wrap_model it",
                )


_END = object()


def _asks_person(chunk: Any) -> bool:
    """Whether a streamed chunk shows an interrupt of the run's own: many consumers leave the stream right there."""
    if isinstance(chunk, tuple):  # (namespace, mode, data), of which the first two depend on the options
        if chunk and isinstance(chunk[0], tuple) and chunk[0]:
            return False
        chunk = chunk[-1] if chunk else None
    elif isinstance(chunk, dict) and {"type", "ns", "data"} <= chunk.keys():  # version "v2"
        chunk = None if chunk["ns"] else chunk["data"]
    return isinstance(chunk, dict) and "__interrupt__" in chunk
