"""Several engines: which one each agent is on, and their seats as one controller's.

* ``load``, ``policy``: who goes where, and who moves. Pure: no clock, no threads, no I/O, and nothing of a gateway.
* ``limiter``, ``controller``: all engines' controllers in one process.
* ``shard``, ``directory``, ``board``, ``words``, ``seats``, ``spread``: each engine's controller anywhere, whatever
  carries what they say.
"""

from concur_agents.fleet.controller import FleetController
from concur_agents.fleet.load import EngineLoad, Refill
from concur_agents.fleet.policy import Fleet, Move

__all__ = ["EngineLoad", "Fleet", "FleetController", "Move", "Refill"]
