"""``python -m benchmarks.real``."""

from benchmarks.real.cli import main

if __name__ == "__main__":
    main()
