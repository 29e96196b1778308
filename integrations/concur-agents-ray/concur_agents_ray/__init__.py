"""Concur on Ray: one controller for the agents of a cluster's tasks and actors, a shard for each engine."""

from concur_agents_ray.controller import RayController
from concur_agents_ray.process import controller, shutdown
from concur_agents_ray.transport import RayTransport

__all__ = ["RayController", "RayTransport", "controller", "shutdown"]
