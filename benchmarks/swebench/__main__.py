"""``python -m benchmarks.swebench``."""

from benchmarks.swebench.cli import main

if __name__ == "__main__":
    main()
