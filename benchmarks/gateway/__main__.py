"""``python -m benchmarks.gateway``."""

from benchmarks.gateway.cli import main

if __name__ == "__main__":
    main()
