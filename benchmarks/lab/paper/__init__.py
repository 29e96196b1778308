"""The paper's tables and figures, made again on the lab's engines: see ``docs/lab/paper.md``."""
