"""Control laws, one a file. To add one, add a file and its name here; nothing else changes."""

from concur_agents.laws.base import Decision, Law
from concur_agents.laws.budget import TokenBudget
from concur_agents.laws.concur import ConcurLaw
from concur_agents.laws.fixed import FixedWindow, Uncontrolled
from concur_agents.laws.wrappers import Clamped, Smoothed

__all__ = ["Clamped", "ConcurLaw", "Decision", "FixedWindow", "Law", "Smoothed", "TokenBudget", "Uncontrolled"]
