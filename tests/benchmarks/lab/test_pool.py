"""Cells in processes: the same figures as here, and one that fails or dies costs no other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.lab import cells
from benchmarks.lab.cells import Cell, code_hash, run_cell
from benchmarks.lab.pool import Pool

CELL = Cell(workload="fits", engine="qwen3-32b-tp2", arm="concur", seed=0, agents=2)


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    made = Pool(1, "c")
    yield made
    made.close()


def test_a_process_finds_what_this_one_does_the_time_apart(pool: Pool) -> None:
    pool.submit(CELL)
    assert (pool.free, pool.busy) == (False, True)
    (record,) = pool.wait()
    here = run_cell(CELL, "c")
    assert replace(record, wall_s=None) == replace(here, wall_s=None)
    assert record.error is None
    assert record.makespan_s is not None
    assert record.lower_bound_s is not None
    assert record.lower_bound_s <= record.makespan_s + 1e-3
    assert record.max_stretch is not None
    assert record.max_stretch >= 1 - 1e-6


def test_a_cell_that_fails_is_a_record_that_says_why(pool: Pool) -> None:
    pool.submit(replace(CELL, workload="nothing"))
    (record,) = pool.wait()
    assert record.key == ("nothing", "qwen3-32b-tp2", "concur", 0, 2)
    assert (record.error or "").startswith("ValueError: workload must be one of")
    assert record.makespan_s is None


def test_a_process_that_dies_costs_its_own_cell_and_no_other(pool: Pool) -> None:
    pool.submit(CELL)
    ((process, _),) = pool._busy.values()
    process.kill()
    (record,) = pool.wait()
    assert "exit code -9" in (record.error or "")
    pool.submit(CELL)
    (record,) = pool.wait()
    assert record.error is None


def test_an_engine_of_which_no_bound_is_proven_has_none() -> None:
    record = run_cell(replace(CELL, engine="vllm-qwen3-32b-tp2"), "c")
    assert record.makespan_s is not None
    assert (record.lower_bound_s, record.max_stretch, record.mean_stretch) == (None, None, None)


def test_the_code_hash_covers_every_module_that_a_cell_loads() -> None:
    program = (
        "import sys; from benchmarks.lab.cells import *;"
        "run_cell(Cell(workload='fits', engine='qwen3-32b-tp2', arm='concur', seed=0, agents=1), 'c');"
        "print(*sorted(m.__file__ for n, m in sys.modules.items()"
        " if n.split('.')[0] in ('concur_agents', 'benchmarks') and getattr(m, '__file__', None)), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=cells.ROOT)
    loaded = set(done.stdout.split())
    hashed = {str(path) for _, path in cells._sources()}
    empty = {str(cells.ROOT / "benchmarks" / name) for name in ("__init__.py", "swebench/__init__.py")}
    assert loaded - hashed - empty == set()
    assert len(code_hash()) == 12
