"""Which of several engines each agent is on. Pure: no clock, no threads, no I/O, and nothing of a gateway."""

from concur_agents.fleet.load import EngineLoad, Refill
from concur_agents.fleet.policy import Fleet, Move
from concur_agents.fleet.scatter import ScatterWatch

__all__ = ["EngineLoad", "Fleet", "Move", "Refill", "ScatterWatch"]
