"""Agent classes of mini-swe-agent whose model calls Concur admits (mini-swe-agent 2.4)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from minisweagent import Environment, Model
from minisweagent.agents.default import DefaultAgent
from minisweagent.exceptions import InterruptAgentFlow

from concur_agents import BaseController
from concur_agents.adapters import AgentRun
from concur_agents.routing import Routes
from concur_agents.shared import shared_controller

__all__ = ["ConcurAgent", "ConcurMixin", "concur"]

_log = logging.getLogger("concur_agents_mini_swe_agent")

AgentClass = TypeVar("AgentClass", bound=DefaultAgent)


class ConcurMixin:
    """Stands before an agent class of mini-swe-agent's; see :func:`concur`."""

    def __init__(
        self,
        model: Model,
        env: Environment,
        *args: Any,
        concur: BaseController | Mapping[str, Any] | str | None = None,
        agent_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(_Admitted(model, self), env, *args, **kwargs)  # type: ignore[call-arg]
        self._controller = concur if isinstance(concur, BaseController) else shared_controller(concur)
        self._agent_id = agent_id or getattr(self, "instance_id", None)
        self._concur_run: AgentRun | None = None

    def run(self, task: str = "", **kwargs: Any) -> dict[str, Any]:
        """As the agent's own; whatever ends it finishes the agent."""
        with AgentRun(self._controller, self._agent_id, log=_log) as self._concur_run:
            try:
                return super().run(task, **kwargs)  # type: ignore[misc, no-any-return]
            finally:
                self._concur_run = None

    def _prompt_and_handle_slash_commands(self, *args: Any, **kwargs: Any) -> str:
        """Only interactive agents have and call it: a person is asked, and may take all day."""
        if self._concur_run is not None:
            self._concur_run.park()
        return cast("str", super()._prompt_and_handle_slash_commands(*args, **kwargs))  # type: ignore[misc]


def concur(agent_class: type[AgentClass]) -> type[AgentClass]:
    """``agent_class`` with Concur in it. Its instances take two more keywords.

    ``concur`` is the controller; or what ``concur_agents.shared_controller`` makes one of: configuration, the name of
    its file, or nothing where ``CONCUR_CONFIG`` or ``CONCUR_ENGINE_URL`` says it. ``agent_id`` is the agent's stable
    name: by default the ``instance_id`` that batch runners give, else made up for each run.
    """
    return cast("type[AgentClass]", type(f"Concur{agent_class.__name__}", (ConcurMixin, agent_class), {}))


class ConcurAgent(ConcurMixin, DefaultAgent):
    """mini-swe-agent's default agent with Concur in it: ``agent_class: concur_agents_mini_swe_agent.ConcurAgent``."""


class _Admitted:
    """One agent's view of its model, which other agents may use at the same time: each query is a step of the agent.

    Here and not in the agent's ``query``, which may first ask a person, or find that a limit is reached.
    """

    def __init__(self, model: Model, agent: ConcurMixin) -> None:
        self._model = model
        self._agent = agent
        self._routed: Any = None
        """The model with several engines."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def query(self, messages: list[dict[str, str]], **kwargs: Any) -> dict[str, Any]:
        run = self._agent._concur_run
        if run is None:  # a loop of the user's own round ``agent.step()``: nothing would finish the agent
            return self._model.query(messages, **kwargs)
        if any(base.__name__ == "LitellmModel" for base in type(self._model).__mro__):  # importing it takes seconds
            if self._agent._controller.may_have_several and self._routed is None:
                self._routed = _at_engine(self._model, self._agent._controller)
            own = self._model.config.model_kwargs.get("extra_headers") or {}
            kwargs["extra_headers"] = {**run.headers, **own, **kwargs.get("extra_headers", {})}
        with run.step() as step:
            try:
                message = (self._routed or self._model).query(messages, **kwargs)
            except InterruptAgentFlow as unreadable:  # a FormatError: the engine has answered all the same
                step.observe(_usage(unreadable.messages[0]))
                raise
            step.observe(_usage(message))
            return message


def _at_engine(model: Any, controller: BaseController) -> Any:
    """The same model, each attempt of which goes to the engine that the agent around is on."""
    kind, routes = type(model), Routes(controller)

    def _query(self: Any, messages: list[dict[str, str]], **kwargs: Any) -> Any:
        way = routes.of(kwargs.get("api_base") or self.config.model_kwargs.get("api_base") or "")
        if way is None:
            return kind._query(self, messages, **kwargs)
        return way.send_blocking(lambda url: kind._query(self, messages, **{**kwargs, "api_base": url}))

    routed: Any = object.__new__(type(kind.__name__, (kind,), {"_query": _query}))
    routed.__dict__ = model.__dict__  # it is one model, whatever it counts
    return routed


def _usage(message: Mapping[str, Any]) -> object:
    """Where mini-swe-agent keeps what the engine answered; with the responses API the message is that answer."""
    response = message.get("extra", {}).get("response", message)
    return response.get("usage") if isinstance(response, Mapping) else None
