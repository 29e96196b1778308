"""One run of an agent loop as an agent, and the loop's LLM client, whose generations are its steps."""

from __future__ import annotations

import contextlib
import logging
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

from concur_agents import BaseController
from concur_agents.adapters import AgentRun

__all__ = ["Rollout", "SteppedClient"]

_log = logging.getLogger("concur_agents_verl")
_ABORTED = frozenset({"abort", "aborted"})  # SGLang's word and vLLM's, which verl passes on as they are


class Rollout:
    """One run of a loop, as a context manager: leaving it finishes the agent, whatever ended it.

    It becomes an agent at its first generation, under that generation's ``request_id``: loops make that up inside
    their ``run``, so nobody knows it before.
    """

    def __init__(self, controller: BaseController) -> None:
        self._controller = controller
        self._agent: AgentRun | None = None
        self._weights: object = None
        """Version of the weights that made the last reply."""

    def __enter__(self) -> None:
        self._token: Token[Rollout | None] = _current.set(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with contextlib.suppress(ValueError):  # collected in another context than it began in: nothing to restore
            _current.reset(self._token)
        if self._agent is not None:
            self._agent.__exit__(kind, error, traceback)

    async def generate(self, client: Any, request_id: Any, *args: Any, **kwargs: Any) -> Any:
        """One generation of ``client``, as a step."""
        if self._agent is None:
            self._agent = AgentRun(self._controller, str(request_id), log=_log).__enter__()
        async with self._agent.step() as step:
            # A client that resumes what a weight update has aborted does so in here: all of it is one step.
            output = await client.generate(request_id, *args, **kwargs)
            with self._agent.faults.never_fatal("observe usage"):
                step.observe(self._usage(kwargs["prompt_ids"], output))
        return output

    def _usage(self, prompt_ids: Any, output: Any) -> dict[str, Any] | None:
        extra = output.extra_fields
        before, self._weights = self._weights, extra.get("max_global_steps")
        if output.stop_reason in _ABORTED:
            return None  # nobody says how far it came
        # New weights empty the prefix cache: what is missing then was not evicted, and says nothing of the window.
        emptied = before is not None and extra.get("min_global_steps") != before
        cached = None if emptied else extra.get("num_cached_tokens")
        return {"prompt_tokens": len(prompt_ids), "cached_tokens": cached, "completion_tokens": len(output.token_ids)}


class SteppedClient:
    """A loop's LLM client (verl's ``LLMServerClient``, its subclasses, a user's own), with each ``generate`` a step.

    All else is the client's own. Outside of a :class:`Rollout` it changes nothing.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def generate(self, request_id: Any, *args: Any, **kwargs: Any) -> Any:
        """Wait for the rollout's seat, then generate; the rollout is at a boundary when the reply is there."""
        rollout = _current.get()
        if rollout is None:
            return await self._client.generate(request_id, *args, **kwargs)
        return await rollout.generate(self._client, request_id, *args, **kwargs)


_current: ContextVar[Rollout | None] = ContextVar("concur_agents_verl_rollout", default=None)
