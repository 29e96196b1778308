"""``python -m benchmarks.lab.real``."""

from benchmarks.lab.real.cli import main

if __name__ == "__main__":
    main()
