"""Concur for AgentScope, 2.x and 1.x: the code for the line that is installed is chosen here."""

from concur_agents_agentscope._installed import AGENTSCOPE_2

# Both modules have the same names; what is for the other line says so when it is used.
if AGENTSCOPE_2:
    from concur_agents_agentscope._v2 import ConcurMiddleware, disable, enable, install, uninstall
else:
    from concur_agents_agentscope._v1 import ConcurMiddleware, disable, enable, install, uninstall

__all__ = ["ConcurMiddleware", "disable", "enable", "install", "uninstall"]
