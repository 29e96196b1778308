"""Concur by changing a base_url: an OpenAI-compatible proxy that makes each generation a step of its agent.

What goes through is not changed: paths, headers and bodies as they came, streams as they come. What is added is a wait
for the agent's seat before a generation is sent to the engine, and the own API under ``/concur/v1``.
"""

from concur_agents.gateway.app import Gateway
from concur_agents.gateway.identity import DEFAULT_IDENTITY
from concur_agents.gateway.limits import GatewayLimits
from concur_agents.gateway.patterns import AllowedEngines
from concur_agents.gateway.server import build_server

__all__ = ["DEFAULT_IDENTITY", "AllowedEngines", "Gateway", "GatewayLimits", "build_server"]
