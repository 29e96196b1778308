"""Lets SGLang be imported where three packages are missing that it imports but, on a CPU, never calls.

Python runs a module of this name at start-up when its folder is on ``PYTHONPATH``, in every process the server spawns
too. Each package below is replaced by an empty one whose every attribute is a class that refuses to be called:

* ``sgl_kernel``: the CUDA kernels; the build for CPUs is not on PyPI. The ``torch_native`` attention backend and the
  ``pytorch`` sampling backend need none of them, but many modules import names from it.
* ``torchvision``, ``torchaudio``: for images and sound; SGLang imports both for any model, and they would have to
  match torch's exact build.

A call of a stand-in raises and names what was called, so a missing kernel never turns into a wrong result.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import FrameType, ModuleType
from typing import Any

MISSING = frozenset({"sgl_kernel", "torchaudio", "torchvision"})


class _StandIn(type):
    """A class that stands in for anything: a base class, a type in an annotation, a decorator's attribute."""

    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(name)

    def __or__(cls, other: Any) -> Any:
        return cls

    def __ror__(cls, other: Any) -> Any:
        return cls


def _stand_in(name: str) -> type:
    def refuse(_self: object, *_args: object, **_kwargs: object) -> None:
        raise RuntimeError(f"{name} is not available on this CPU (see benchmarks/engines/sglang_cpu/shims)")

    return _StandIn(name, (), {"__init__": refuse})


class _Package(ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _stand_in(f"{self.__name__}.{name}")
        setattr(self, name, value)  # the same class each time, so that isinstance and dict keys work
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - a finder's signature
        target: ModuleType | None = None,  # noqa: ARG002 - a finder's signature
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in MISSING or _asked_by_transformers():
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Package(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []


def _asked_by_transformers() -> bool:
    """Transformers asks what is there in order to use it for real, so it gets the truth."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and ("importlib" in frame.f_code.co_filename or frame.f_code.co_filename[0] == "<"):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.endswith("transformers/utils/import_utils.py")


# Last in line: a package that is really installed is used.
sys.meta_path.append(_Finder())
