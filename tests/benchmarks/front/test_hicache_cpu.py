"""What lets SGLang's HiCache run without CUDA: two functions replaced, in whatever process imports their modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.engines.sglang_cpu.server import SHIMS
from benchmarks.swebench.server import HICACHE_SHIMS

COMMON = """
_CUDA_HOST_REGISTERED_RANGES_ATTR = "_ranges"

def _cuda_host_register(buffer, granularity=None):
    raise AssertionError("Torch not compiled with CUDA enabled")
"""
MHA = """
def transfer_kv_direct(**_):
    raise AssertionError("a CUDA kernel")

class Pool:
    def move(self, *args):
        names = ("src_layers", "dst_layers", "src_indices", "dst_indices")
        return transfer_kv_direct(**dict(zip(names, args)), page_size=1)
"""
# Rows as tensors have them, as far as the copy needs it.
PROGRAM = """
import sgl_kernel  # the other shims run too
from sglang.srt.mem_cache.pool_host import common, mha

class Buffer: pass
buffer = Buffer()
common._cuda_host_register(buffer, 4096)
assert buffer._ranges == []

class Indices(list):
    def to(self, device):
        return self

class Rows(list):
    device = "cpu"
    shape = None
    def __getitem__(self, at):
        return Rows([list.__getitem__(self, i) for i in at])
    def __setitem__(self, at, rows):
        for i, row in zip(at, rows):
            list.__setitem__(self, i, row)
    def reshape(self, shape):
        return self

source, target = Rows("abcd"), Rows("....")
mha.Pool().move([source], [target], Indices([1, 3]), Indices([0, 2]))
assert list(target) == ["b", ".", "d", "."], target
"""


def test_sglangs_own_modules_get_other_functions_and_the_other_shims_still_run(tmp_path: Path) -> None:
    folder = tmp_path / "sglang" / "srt" / "mem_cache" / "pool_host"
    folder.mkdir(parents=True)
    for each in (folder, *list(folder.parents)[:3]):
        (each / "__init__.py").touch()
    (folder / "common.py").write_text(COMMON)
    (folder / "mha.py").write_text(MHA)
    path = os.pathsep.join(map(str, (HICACHE_SHIMS, SHIMS, tmp_path)))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
