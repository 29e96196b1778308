"""What the gateway costs: beside no proxy at all, nginx, and a proxy of another scheduler's design."""
