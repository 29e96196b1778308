"""``python -m benchmarks.fleet.real``."""

if __name__ == "__main__":
    from benchmarks.fleet.real.cli import main

    main()
