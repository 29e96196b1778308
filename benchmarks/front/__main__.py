"""``python -m benchmarks.front``."""

from benchmarks.front.cli import main

if __name__ == "__main__":
    main()
