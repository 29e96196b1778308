"""Lets SGLang keep a second tier of its KV cache (HiCache) where there is no CUDA. Goes before the other shims' folder.

HiCache registers its host memory with CUDA, and moves KV with CUDA's kernels. On a CPU both tiers are the same kind of
memory: nothing has to be registered, and torch copies. What is kept, evicted and loaded back is SGLang's own choice.

Python runs the first module of this name on its path, in every process that the server spawns; so this one runs the
next.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent


def _run_next() -> None:
    path = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    found = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if found is not None and found.loader is not None:
        found.loader.exec_module(importlib.util.module_from_spec(found))


def _register_nothing(module: Any) -> None:
    name = module._CUDA_HOST_REGISTERED_RANGES_ATTR
    module._cuda_host_register = lambda buffer, *_args: setattr(buffer, name, [])


def _copy_with_torch(module: Any) -> None:
    def transfer(
        src_layers: Sequence[Any], dst_layers: Sequence[Any], src_indices: Any, dst_indices: Any, **_: Any
    ) -> None:
        for source, target in zip(src_layers, dst_layers, strict=True):
            into, rows = dst_indices.to(target.device), source[src_indices.to(source.device)]
            target[into] = rows.reshape(target[into].shape)

    module.transfer_kv_direct = transfer


PATCHES: dict[str, Callable[[Any], None]] = {
    "sglang.srt.mem_cache.pool_host.common": _register_nothing,
    "sglang.srt.mem_cache.pool_host.mha": _copy_with_torch,
}


class _Patching(importlib.abc.MetaPathFinder):
    """Finds SGLang's own module, and changes it as soon as it has run."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - a finder's signature
        target: ModuleType | None = None,  # noqa: ARG002 - a finder's signature
    ) -> importlib.machinery.ModuleSpec | None:
        patch = PATCHES.get(fullname)
        if patch is None:
            return None
        sys.meta_path.remove(self)
        try:
            found = importlib.util.find_spec(fullname)
        finally:
            sys.meta_path.insert(0, self)
        if found is not None and found.loader is not None:
            run = found.loader.exec_module

            def run_and_patch(module: ModuleType) -> None:
                run(module)
                patch(module)

            found.loader.exec_module = run_and_patch  # type: ignore[method-assign]
        return found


_run_next()
sys.meta_path.insert(0, _Patching())
