"""``python -m benchmarks.frameworks``."""

from benchmarks.frameworks.cli import main

if __name__ == "__main__":
    main()
