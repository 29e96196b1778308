"""Model calls as steps wherever in a run they are made: in a task, in a tool, by another middleware's summariser."""

from __future__ import annotations

import contextlib
import types
from collections.abc import AsyncIterator, Iterator
from types import EllipsisType, TracebackType
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langgraph.config import get_config

from concur_agents import BaseController
from concur_agents_langgraph.generation import Generation
from concur_agents_langgraph.models import ModelT, at_its_engine, header_of, with_header, with_usage
from concur_agents_langgraph.runs import current_run

__all__ = ["ModelStep", "model_step", "wrap_model"]


def wrap_model(model: ModelT, controller: BaseController, *, session_header: str | EllipsisType | None = ...) -> ModelT:
    """A copy of a chat model whose every call is a step of the agent it is made in.

    ::

        model = wrap_model(ChatOpenAI(...), concur)

        @task
        async def call_model(messages):
            return await model.ainvoke(messages)

        agent = wrap(entrypoint()(...), concur)

    For the functional API, and for models that others call: ``create_deep_agent(model=wrap_model(...))`` makes the
    calls of its helpers and of its summariser steps too. It stays a model of its own class: ``bind_tools``,
    ``with_structured_output``, streams. As with :class:`ConcurMiddleware`, a request of ``ChatOpenAI`` carries the
    agent's id. Inside another step (a model node that has the middleware) a call belongs to that step.

    The copy can only be called in a wrapped run, from async code if the run is async.

    Args:
        model: any LangChain chat model; wrapping twice with the same controller changes nothing.
        controller: gives out the seats; the same as given to ``wrap``.
        session_header: as for ``ConcurMiddleware``.

    Raises:
        TypeError: ``model`` is no chat model: tools and retries come after.
        ValueError: it is wrapped with another controller already.
    """
    given: object = model
    if isinstance(given, _Controlled):
        if given.concur_controller is not controller:
            raise ValueError("wrap_model: this model is wrapped with another controller already")
        return model
    if not isinstance(given, BaseChatModel):
        raise TypeError(
            f"wrap_model takes a chat model, got {type(given).__name__}: wrap the model first, and put bind_tools, "
            "retries and the like around the result"
        )
    # Under the user's own name: LangChain and its tracers look models up by module and class.
    kind: Any = types.new_class(type(model).__name__, (_Controlled, type(model)))
    kind.__module__ = type(model).__module__
    kind.concur_controller = controller
    kind.concur_header = header_of(controller, session_header)
    controlled = at_its_engine(with_usage(model), controller).model_copy()
    object.__setattr__(controlled, "__class__", kind)
    return controlled


def model_step(controller: BaseController) -> ModelStep:
    """Make what is called inside one step of the agent whose run it is in: for clients that are no LangChain model.

    ::

        @task
        async def call_model(messages):
            async with model_step(concur) as step:
                reply = await client.chat.completions.create(..., extra_headers=session_headers())
                step.observe(reply.usage)
            return reply.choices[0].message.model_dump()

    ``async with`` awaits the seat, ``with`` blocks its thread for it (sync runs only).

    Raises:
        NotWrappedError: at entry, outside of a wrapped run.
        TypeError: at entry of ``with`` in an async run.
    """
    return ModelStep(controller)


class ModelStep:
    """One step; see :func:`model_step`."""

    def __init__(self, controller: BaseController) -> None:
        self._controller: Final = controller
        self._generation: Generation | None = None

    async def __aenter__(self) -> Generation:
        self._generation = Generation(current_run(self._controller), get_config())
        return await self._generation.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._generation is not None:
            await self._generation.__aexit__(kind, error, traceback)

    def __enter__(self) -> Generation:
        run, config = current_run(self._controller), get_config()
        if run.on_loop and not run.member(config).generating:  # inside a step it need not wait
            raise TypeError(
                "a blocking model call in an async run: while it waits for a seat it would hold one of the event "
                "loop's few threads, which agents with a seat need for their tools; await model.ainvoke(...) instead"
            )
        self._generation = Generation(run, config)
        return self._generation.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._generation is not None:
            self._generation.__exit__(kind, error, traceback)


class _Controlled:
    """Mixed into the model's own class. ``batch`` and the sequences a model is part of go through these four."""

    concur_controller: BaseController
    concur_header: str | None

    def invoke(self, input: Any, config: Any = None, **options: Any) -> Any:  # noqa: A002 - LangChain's name for it
        with ModelStep(self.concur_controller) as step:
            reply = super().invoke(input, config, **self._named(step, options))  # type: ignore[misc]
            step.observe(reply.usage_metadata)
        return reply

    async def ainvoke(self, input: Any, config: Any = None, **options: Any) -> Any:  # noqa: A002 - as above
        async with ModelStep(self.concur_controller) as step:
            reply = await super().ainvoke(input, config, **self._named(step, options))  # type: ignore[misc]
            step.observe(reply.usage_metadata)
        return reply

    def stream(self, input: Any, config: Any = None, **options: Any) -> Iterator[Any]:  # noqa: A002 - as above
        with (
            ModelStep(self.concur_controller) as step,
            contextlib.closing(super().stream(input, config, **self._named(step, options))) as chunks,  # type: ignore[misc]
        ):
            for chunk in chunks:
                step.observe(chunk.usage_metadata)
                yield chunk

    async def astream(self, input: Any, config: Any = None, **options: Any) -> AsyncIterator[Any]:  # noqa: A002 - as above
        async with (
            ModelStep(self.concur_controller) as step,
            contextlib.aclosing(super().astream(input, config, **self._named(step, options))) as chunks,  # type: ignore[misc]
        ):
            async for chunk in chunks:
                step.observe(chunk.usage_metadata)
                yield chunk

    def _named(self, step: Generation, options: dict[str, Any]) -> dict[str, Any]:
        return with_header(self, options, step.agent_id, self.concur_header)  # type: ignore[arg-type]
