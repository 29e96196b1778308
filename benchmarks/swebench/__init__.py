"""SWE-style tasks, really run, by a batch of agents with and without Concur: ``python -m benchmarks.swebench``."""
