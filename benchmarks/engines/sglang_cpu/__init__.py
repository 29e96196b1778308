"""The real engine: how it is installed, what model it serves, how it is started and stopped."""
