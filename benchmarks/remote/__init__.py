"""What a step costs with a controller in another process: many agents in several processes, over HTTP on loopback."""
