"""A tiny project in two releases, as PyPI would have it: no test of the tasks needs the network."""

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

BUGGY = """\
def add(a, b):
    return a - b


def double(a):
    return a * 3
"""
FIXED = BUGGY.replace("a - b", "a + b").replace("a * 3", "a * 2")
OLD_TEST = "raise AssertionError('the old test must be gone')\n"
TEST = """\
import unittest
import adder, worth


class Adding(unittest.TestCase):
    def test_it(self):
        self.assertEqual((adder.add(1, worth.TWO), adder.double(2)), (3, 4))
"""
SPEC = """\
project = "Adder"
tests = ["tests"]
leave_out = ["docs/*.big"]
sources = ["adder.py"]
test_command = "python -m unittest -b tests.test_adder"
problem = "add(1, 2) is -1"

[buggy]
version = "1.0"
filename = "adder-1.0.tar.gz"
sha256 = "{buggy}"

[fixed]
version = "1.1"
filename = "adder-1.1.tar.gz"
sha256 = "{fixed}"
"""
WHEELS = """\
[[wheels]]
project = "worth"
filename = "worth-1-py3-none-any.whl"
sha256 = "{wheel}"
"""


def sdist(path: Path, files: Mapping[str, str]) -> str:
    """Write a source archive; its SHA-256."""
    with tarfile.open(path, "w:gz") as archive:
        top = path.name.removesuffix(".tar.gz")
        for name, text in files.items():
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
        link = tarfile.TarInfo(f"{top}/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Project:
    """Archives and spec of the tiny project, and the cache they are in."""

    def __init__(self, root: Path) -> None:
        self.cache = root / "cache"
        self.archives = self.cache / "archives"
        self.archives.mkdir(parents=True)
        self.specs = root / "specs"
        self.specs.mkdir()
        common = {"README.md": "Adds.\n", "docs/table.big": "0" * 1000, "tests/__init__.py": ""}
        old = sdist(
            self.archives / "adder-1.0.tar.gz",
            {**common, "adder.py": BUGGY, "tests/test_adder.py": OLD_TEST, "tests/test_gone.py": OLD_TEST},
        )
        new = sdist(
            self.archives / "adder-1.1.tar.gz",
            {**common, "adder.py": FIXED, "tests/test_adder.py": TEST, "x/__pycache__/y.pyc": "0"},
        )
        wheel = self.archives / "worth-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("worth.py", "TWO = 2\n")
        self.spec = self.specs / "adder__1.0.toml"
        self.spec.write_text(SPEC.format(buggy=old, fixed=new))
        pinned = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (self.specs / "packages.toml").write_text(WHEELS.format(wheel=pinned))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
