"""Real vLLM on a CPU: how it is started and stopped. It serves the same model as SGLang's server."""
