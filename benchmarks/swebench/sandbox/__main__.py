"""What a sandbox costs on this machine: ``python -m benchmarks.swebench.sandbox [bubblewrap|podman|docker]``."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.swebench.sandbox import BUBBLEWRAP, SandboxUnavailable, check_kind, sandboxes_of

COMMANDS = 60
AT_ONCE = 64


async def measure(kind: str) -> None:
    """Print the seconds of entering the factory, of a command that does nothing, and of many at once."""
    with tempfile.TemporaryDirectory() as workspace:
        begin = time.perf_counter()
        async with sandboxes_of(kind) as sandboxes:
            _say(f"factory entered        {time.perf_counter() - begin:.2f} s")
            sandbox = await sandboxes.open(Path(workspace))
            times = []
            for _ in range(COMMANDS):
                begin = time.perf_counter()
                await sandbox.run("true", timeout=10)
                times.append(time.perf_counter() - begin)
            _say(f"one command            {statistics.median(times) * 1e3:.0f} ms, median of {COMMANDS}")
            many = [await sandboxes.open(Path(workspace)) for _ in range(AT_ONCE)]
            begin = time.perf_counter()
            results = await asyncio.gather(*(each.run("true", timeout=60) for each in many))
            failed = sum(result.exit_code != 0 for result in results)
            _say(f"{AT_ONCE} commands at once    {time.perf_counter() - begin:.2f} s, {failed} failed")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    try:
        chosen = sys.argv[1] if len(sys.argv) > 1 else BUBBLEWRAP
        check_kind(chosen)
        asyncio.run(measure(chosen))
    except (SandboxUnavailable, ValueError) as error:
        sys.exit(str(error))
