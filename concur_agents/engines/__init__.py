"""Readers that turn an engine's metrics into an EngineSample."""

from concur_agents.engines.any import AnyEngine
from concur_agents.engines.base import EngineReader
from concur_agents.engines.parse import read_sample
from concur_agents.engines.sglang import SGLang
from concur_agents.engines.trtllm import TensorRTLLM
from concur_agents.engines.vllm import VLLM

__all__ = ["VLLM", "AnyEngine", "EngineReader", "SGLang", "TensorRTLLM", "read_sample"]
