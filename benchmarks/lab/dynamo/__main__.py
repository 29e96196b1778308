"""``python -m benchmarks.lab.dynamo``."""

from __future__ import annotations

from benchmarks.lab.dynamo.cli import app

if __name__ == "__main__":
    app()
