"""``python -m benchmarks.chaos``."""

from benchmarks.chaos.cli import main

if __name__ == "__main__":
    main()
