"""``python -m benchmarks.ray``."""

from benchmarks.ray.cli import main

if __name__ == "__main__":
    main()
