"""``python -m benchmarks.mini_swe_agent``."""

from benchmarks.mini_swe_agent.cli import main

if __name__ == "__main__":
    main()
