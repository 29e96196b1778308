"""mini-swe-agent's own batch runner, ``mini-extra swebench``, with and without Concur."""
