"""``python -m benchmarks.lab``."""

if __name__ == "__main__":  # worker processes load this module, and need nothing of the command line
    from benchmarks.lab.cli import main

    main()
