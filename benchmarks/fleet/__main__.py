"""``python -m benchmarks.fleet``."""

if __name__ == "__main__":
    from benchmarks.fleet.cli import app

    app()
