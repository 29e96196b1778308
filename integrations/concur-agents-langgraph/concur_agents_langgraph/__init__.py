"""Concur for LangChain and LangGraph agents."""

from concur_agents_langgraph.controlled import model_step, wrap_model
from concur_agents_langgraph.errors import NotWrappedError
from concur_agents_langgraph.graphs import add_concur, pause_node, resume_node, session_headers
from concur_agents_langgraph.middleware import ConcurMiddleware
from concur_agents_langgraph.wrapping import wrap

__all__ = [
    "ConcurMiddleware",
    "NotWrappedError",
    "add_concur",
    "model_step",
    "pause_node",
    "resume_node",
    "session_headers",
    "wrap",
    "wrap_model",
]
