"""Print the table of the workloads: ``python -m benchmarks.lab.workloads``; ``--write`` puts it into the page.

``--trace FILE`` adds a row for a recording of one's own, to see what was read from it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.lab.workloads.registry import WORKLOADS
from benchmarks.lab.workloads.table import PAGE, filled, table
from benchmarks.lab.workloads.trace import TraceError, from_trace

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lab.workloads", description="The lab's workloads.")
    parser.add_argument("--write", action="store_true", help="write the table into the README beside the workloads")
    parser.add_argument("--trace", action="append", default=[], metavar="FILE", help="also a recording, or a folder")
    options = parser.parse_args(argv)
    if options.write:
        PAGE.write_text(filled(PAGE.read_text()))
        return 0
    try:
        recorded = [from_trace(path) for path in options.trace]
    except TraceError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(table([*WORKLOADS.values(), *recorded]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
