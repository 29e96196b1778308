"""Whether anything else kept the machine busy: what the benchmark itself started is not anything else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.fleet.real.bench import Others
from benchmarks.machine import session_cpu_s

BURNS = "import sys\nwhile True: sum(range(10_000))"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not tell")
def test_a_session_that_is_named_is_not_counted_among_others() -> None:
    child = subprocess.Popen([sys.executable, "-c", BURNS], start_new_session=True)
    try:
        known, unknown = Others([child.pid]), Others([])
        while session_cpu_s(child.pid) < 0.3:
            pass
        counted, left = unknown.share(), known.share()
    finally:
        child.kill()
        child.wait()
    assert 0 <= left < counted <= 1
