"""What the contract's tests showed, for a table: one JSON line a test, where ``CONCUR_CONTRACT_RECORD`` says."""

from __future__ import annotations

import contextlib
import json
import os
import unittest
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

__all__ = ["RECORD", "recorded"]

RECORD = "CONCUR_CONTRACT_RECORD"
"""Environment variable: the file to append to; unset records nothing."""


@contextlib.contextmanager
def recorded(title: str, packages: Iterable[str], guarantee: str) -> Iterator[None]:
    """Run one test in the body and append how it ended: ``held``, ``not covered`` or ``failed``."""
    result, reason = "failed", None
    try:
        yield
        result = "held"
    except unittest.SkipTest as skip:
        result, reason = "not covered", str(skip)
        raise
    finally:
        if path := os.environ.get(RECORD):
            line = {
                "adapter": title,
                "versions": {package: version(package) for package in packages},
                "guarantee": guarantee,
                "result": result,
                "reason": reason,
            }
            # One short write at the end of the file: several environments may be at it at the same time.
            with Path(path).open("a", encoding="utf-8") as record:
                record.write(json.dumps(line) + "\n")
