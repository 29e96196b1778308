"""Runs of a shared controller: processes of agents that ask ``concur serve`` for their seats."""
