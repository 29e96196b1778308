"""``python -m benchmarks.remote``."""

from benchmarks.remote.cli import main

if __name__ == "__main__":
    main()
