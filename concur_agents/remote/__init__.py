"""One controller for agents in many processes, on many hosts.

:class:`Desk` answers for it, in one event loop; :class:`RemoteController` is it as a process of agents sees it; a
:class:`Transport` is what carries operations between the two. Over HTTP they are in ``http`` and ``service``.
"""

from concur_agents.remote.client import RemoteController
from concur_agents.remote.desk import Desk
from concur_agents.remote.protocol import RefusedError, Transport, UnreachableError

__all__ = ["Desk", "RefusedError", "RemoteController", "Transport", "UnreachableError"]
