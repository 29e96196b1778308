"""A run's model calls: each waits for the seat, names the agent to the engine, and tells its usage."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from agents import Agent, ModelResponse, ModelSettings, RunConfig, RunContextWrapper, TResponseInputItem
from agents.lifecycle import RunHooksBase
from agents.models.chatcmpl_helpers import HEADERS_OVERRIDE
from agents.models.openai_responses import _HEADERS_OVERRIDE

from concur_agents.adapters import AgentRun

__all__ = ["StepHooks", "prepare"]

# What the SDK's models send on top of an agent's own headers; a run's settings would replace those.
_OVERRIDES = (HEADERS_OVERRIDE, _HEADERS_OVERRIDE)


class StepHooks(RunHooksBase[Any, Agent[Any]]):
    """The user's hooks, and a step from the moment before a model call until its reply is there, retries included.

    Args:
        run: whose calls.
        users: the user's hooks for the run.
        extra: names of headers in the user's run settings.
    """

    def __init__(self, run: AgentRun, users: RunHooksBase[Any, Any], extra: Iterable[str]) -> None:
        self._run = run
        self._users = users
        self._extra = extra
        self._headers: dict[str, str] = {}
        for name in dir(RunHooksBase):
            if name.startswith("on_") and name not in vars(StepHooks):
                setattr(self, name, getattr(users, name))

    async def on_llm_start(
        self,
        context: RunContextWrapper[Any],
        agent: Agent[Any],
        system_prompt: str | None,
        input_items: list[TResponseInputItem],
    ) -> None:
        """Wait for the seat, when the user's hook has done."""
        await self._users.on_llm_start(context, agent, system_prompt, input_items)
        taken = {name.lower() for name in (*(agent.model_settings.extra_headers or ()), *self._extra)}
        for name, value in self._run.headers.items():
            self._headers.pop(name, None)
            if name.lower() not in taken:
                self._headers[name] = value
        await self._run.resume()

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        """At a boundary; no tool has begun."""
        # The client's own usage: in the SDK's, cached tokens are 0 where the engine does not tell.
        self._run.pause(response.raw_usage)
        await self._users.on_llm_end(context, agent, response)

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Requests of runs that begin inside carry the agent's headers."""
        before = [variable.get() or {} for variable in _OVERRIDES]
        self._headers.update({name: value for each in before for name, value in each.items()})
        tokens = [variable.set(self._headers) for variable in _OVERRIDES]
        try:
            yield
        finally:
            for variable, token in zip(_OVERRIDES, tokens, strict=True):
                with suppress(ValueError):  # collected as garbage, in another context: nothing to restore
                    variable.reset(token)


def prepare(run: AgentRun, options: dict[str, Any]) -> StepHooks:
    """Have the run its options are for wait for seats, and ask for usage, which streams do not have by default.

    Args:
        run: the run.
        options: of ``Runner.run``; changed. What the user has decided for the run stays.
    """
    ours = ModelSettings(include_usage=True, preserve_raw_usage=True)
    config: RunConfig | dict[str, Any] = options.get("run_config") or {}
    if isinstance(config, RunConfig):
        settings = ours.resolve(config.model_settings)
        options["run_config"] = dataclasses.replace(config, model_settings=settings)
    else:  # stays a mapping: the SDK closes the model provider only of a configuration that it has made itself
        settings = ours.resolve(config.get("model_settings"))
        options["run_config"] = {**config, "model_settings": settings}
    options["hooks"] = hooks = StepHooks(run, options.get("hooks") or RunHooksBase(), settings.extra_headers or ())
    return hooks
