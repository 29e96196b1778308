"""verl's agent loops, as users name them in ``agent_loop_config_path``."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Mapping
from typing import Any, TypeVar

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.experimental.agent_loop.tool_agent_loop import ToolAgentLoop

from concur_agents import BaseController
from concur_agents_verl.controllers import controller_of
from concur_agents_verl.rollouts import Rollout, SteppedClient

__all__ = ["ConcurLoop", "ConcurToolAgentLoop", "concur"]

_Loop = TypeVar("_Loop", bound=type[AgentLoopBase])


class ConcurLoop(AgentLoopBase):
    """Mix it into an agent loop, before its class: each run is an agent, each generation of its client a step.

    Args:
        concur: a configuration as for ``Controller.from_config``, as the loop's block ``concur:`` has it, or a
            controller. Of equal configurations a worker process has one controller.
        args: as for the loop.
        kwargs: as for the loop.
    """

    def __init__(self, *args: Any, concur: BaseController | Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._concur = concur
        self.server_manager: Any = SteppedClient(self.server_manager)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Run the loop; its agent ends with it, whatever ends it."""
        controller = await controller_of(self._concur, self.server_manager, self.rollout_config.name)
        with contextlib.nullcontext() if controller is None else Rollout(controller):
            return await super().run(sampling_params, **kwargs)  # type: ignore[safe-super] # the loop's own comes next


class ConcurToolAgentLoop(ConcurLoop, ToolAgentLoop):
    """verl's ``ToolAgentLoop`` under Concur."""


def concur(loop: _Loop) -> _Loop:
    """Class decorator that puts a loop of your own under Concur; above or below ``@register``."""
    names = {"__module__": loop.__module__, "__qualname__": loop.__qualname__, "__doc__": loop.__doc__}
    made: Any = types.new_class(loop.__name__, (ConcurLoop, loop), exec_body=lambda body: body.update(names))
    return made  # type: ignore[no-any-return]
