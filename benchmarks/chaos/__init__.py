"""Random runs of the gateway with faults: processes die and freeze, connections break, metrics lie, clients give up."""
