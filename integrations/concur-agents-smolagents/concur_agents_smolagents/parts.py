"""What an agent under control has in place of its model and its Python executor."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from contextvars import Context, ContextVar, copy_context
from typing import Any

from smolagents import LiteLLMModel, MultiStepAgent, OpenAIModel, Tool  # type: ignore[import-untyped]

from concur_agents.adapters import AgentRun

__all__ = ["RUNNING", "admitted", "carrying", "refine"]

RUNNING: ContextVar[tuple[Any, AgentRun] | None] = ContextVar("concur_agents_smolagents_running", default=None)
"""The model of the innermost agent that runs, and its run. Not on the agent: a manager may call it twice at a time."""


def refine(thing: Any, subclass: Callable[[Any], Any]) -> Any:
    """Make ``thing`` one of a subclass of its class, which keeps that class's name, unless it is; return it."""
    kind = type(thing)
    if not hasattr(kind, "__wrapped__"):
        thing.__class__ = functools.update_wrapper(subclass(kind), kind, updated=())
    return thing


@functools.cache
def admitted(kind: Any) -> Any:
    """A model class, for a model of one agent: each call is a step of the run that is on, its retries included."""

    class Admitted(kind):  # type: ignore[misc]
        def generate(self, *args: Any, **kwargs: Any) -> Any:
            with run.step() if (run := _run_of(self)) else nullcontext() as step:
                message = super().generate(*args, **kwargs)
                if step is not None:  # their own count knows nothing of cached tokens
                    step.observe(getattr(message.raw, "usage", None) or message.token_usage)
                return message

        def _prepare_completion_kwargs(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            request: dict[str, Any] = super()._prepare_completion_kwargs(*args, **kwargs)
            run = _run_of(self)
            if run is not None and isinstance(self, (OpenAIModel, LiteLLMModel)):  # others take no headers
                theirs = getattr(self, "client_kwargs", {}).get("default_headers"), request.get("extra_headers")
                request["extra_headers"] = {**run.headers, **(theirs[0] or {}), **(theirs[1] or {})}
            return request

    class Streaming(Admitted):
        def generate_stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
            with run.step() if (run := _run_of(self)) else nullcontext() as step:
                for delta in super().generate_stream(*args, **kwargs):
                    if step is not None:
                        step.observe(delta.token_usage)
                    yield delta

    return Streaming if hasattr(kind, "generate_stream") else Admitted  # smolagents looks whether a model has it


def _run_of(model: Any) -> AgentRun | None:
    """None outside of a run: then nobody would finish the agent, and calls are none of Concur's business."""
    running = RUNNING.get()
    return running[1] if running is not None and running[0] is model else None


@functools.cache
def carrying(kind: Any) -> Any:
    """A class of Python executors that call tools in their caller's context, although they run code in a new thread."""

    class Carrying(kind):  # type: ignore[misc]
        static_tools: dict[str, Any]

        def __call__(self, code_action: str) -> Any:
            before, context = self.static_tools, copy_context()
            self.static_tools = {
                name: _carried(tool, context) if isinstance(tool, (Tool, MultiStepAgent)) else tool
                for name, tool in before.items()
            }
            try:
                return super().__call__(code_action)
            finally:
                self.static_tools = before

    return Carrying


def _carried(tool: Any, context: Context) -> Callable[..., Any]:
    # A copy for each call: code that ran out of time goes on beside the next.
    return lambda *args, **kwargs: context.copy().run(tool, *args, **kwargs)
