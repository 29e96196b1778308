"""Runs of the gateway: clients of which it hears requests and nothing else."""
