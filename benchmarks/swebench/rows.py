"""Rows of SWE-bench's form: Lite, Verified and full, SWE-Gym, SWE-smith; from a file, or from the Hugging Face hub.

What such a row has, by name: ``instance_id``, ``problem_statement``, ``patch`` (the fix), ``FAIL_TO_PASS`` and
``PASS_TO_PASS`` (tests, as a list or as JSON); SWE-bench and SWE-Gym also have ``repo``, ``base_commit`` and
``test_patch``. Newer rows of SWE-bench also say how they are tested: ``eval_script``, ``log_parser``, ``eval_type``.
SWE-smith's ``patch`` made its bug.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

__all__ = ["HUB", "Instance", "RowError", "image_of", "is_source", "read_rows"]

HUB: Mapping[str, tuple[str, str]] = {
    "lite": ("SWE-bench/SWE-bench_Lite", "test"),
    "verified": ("SWE-bench/SWE-bench_Verified", "test"),
    "full": ("SWE-bench/SWE-bench", "test"),
    "gym": ("SWE-Gym/SWE-Gym", "train"),
    "smith": ("SWE-bench/SWE-smith", "train"),
}
"""Data sets on the hub and their splits, by a short name."""
SUFFIXES = (".jsonl", ".json", ".parquet")
ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(:[\w.-]+)?")
SMITH = "swesmith"
"""In the names of SWE-smith's images."""


class RowError(ValueError):
    """A file or data set cannot be read, or a row is not of SWE-bench's form. The message names file, row and field."""


def _tests(value: object) -> object:
    """A list, or the JSON of one."""
    return json.loads(value) if isinstance(value, str) else value


Tests = Annotated[tuple[str, ...], BeforeValidator(_tests)]


class Instance(BaseModel):
    """One task of SWE-bench's form. What other columns a row has is left out."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    instance_id: Annotated[str, Field(min_length=1)]
    problem_statement: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
    """What the agent is told. Empty in most rows of SWE-smith, which are for other uses, and in no others."""
    repo: str = ""
    """``owner/name`` on GitHub."""
    base_commit: str = ""
    patch: str = ""
    """The fix, as a unified diff; no agent sees it."""
    test_patch: str = ""
    """The tests that the fix came with."""
    version: str = ""
    fail_to_pass: Annotated[Tests, Field(alias="FAIL_TO_PASS")]
    """Tests that the fix must make pass."""
    pass_to_pass: Annotated[Tests, Field(alias="PASS_TO_PASS")] = ()
    """Tests that must go on passing."""
    image: str
    """Container image in which the repository lies at ``/testbed``, ready to run."""
    eval_script: str = ""
    """What runs the tests, as the swebench package from 5 on has it."""
    log_parser: str = ""
    """Its name for what reads their output."""
    eval_type: str = ""

    @property
    def of_smith(self) -> bool:
        """Whether it is SWE-smith's."""
        return SMITH in self.image


def is_source(name: str) -> bool:
    """Whether :func:`read_rows` would look for rows there; no task has such a name."""
    return name in HUB or "/" in name or name.endswith(SUFFIXES)


def read_rows(source: str) -> tuple[Instance, ...]:
    """All rows of a file, or of a data set on the hub.

    Args:
        source: path of a ``.jsonl``, ``.json`` (a list) or ``.parquet`` file; or a name of :data:`HUB`, or
            ``owner/data-set`` with an optional ``:split`` (default ``test``).

    Raises:
        RowError: it is not there, cannot be read, has no row, or one that is not of SWE-bench's form or comes twice.
    """
    path = Path(source)
    if path.suffix in SUFFIXES:
        rows, name = _file(path), source
    elif source in HUB or (ON_THE_HUB.fullmatch(source) and not path.exists()):
        rows, name = _hub(source), source
    else:
        raise RowError(
            f"{source!r} is neither a {', '.join(SUFFIXES)} file nor a data set: name a file, one of "
            f"{', '.join(HUB)}, or owner/data-set[:split]"
        )
    found: dict[str, Instance] = {}
    for number, row in enumerate(rows, start=1):
        instance = _instance(row, f"{name}, row {number}")
        if instance.instance_id in found:
            raise RowError(f"{name}, row {number}: {instance.instance_id} comes twice")
        found[instance.instance_id] = instance
    if not found:
        raise RowError(f"{name} has no rows")
    return tuple(found.values())


def image_of(row: Mapping[str, Any]) -> str:
    """The row's container image: what it says, else what its data set's makers call it."""
    for column in ("image_name", "docker_image", "image"):
        if isinstance(said := row.get(column), str) and said and not said.endswith(".sif"):
            return _with_registry(said)
    name = str(row.get("instance_id", "")).lower()
    if row.get("subset") == "gym" or str(row.get("dataset_name", "")).startswith("SWE-Gym"):
        return f"docker.io/xingyaoww/sweb.eval.x86_64.{name.replace('__', '_s_')}:latest"
    return f"docker.io/swebench/sweb.eval.x86_64.{name.replace('__', '_1776_')}:latest"


def _with_registry(image: str) -> str:
    """With the registry that Docker takes for granted; Podman does not."""
    first, slash, _ = image.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first):
        return image
    return f"docker.io/{image if slash else f'library/{image}'}"


def _instance(row: object, where: str) -> Instance:
    if not isinstance(row, Mapping):
        raise RowError(f"{where}: an object was expected, not {type(row).__name__}")
    try:
        instance = Instance.model_validate({**row, "image": image_of(row)})
    except (ValidationError, ValueError) as error:
        if not isinstance(error, ValidationError):
            raise RowError(f"{where}: {error}") from None
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise RowError(f"{where}: {field}: {first['msg']} (columns: {', '.join(sorted(map(str, row)))})") from None
    if not instance.problem_statement and not instance.of_smith:
        raise RowError(f"{where}: problem_statement: must not be empty")
    return instance


def _file(path: Path) -> Iterable[object]:
    try:
        if path.suffix == ".parquet":
            return _parquet(path)
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RowError(f"cannot read {path}: {error}") from None
    if path.suffix == ".json":
        rows = _json(text, str(path))
        if not isinstance(rows, list):
            raise RowError(f"{path}: a list of rows was expected, not {type(rows).__name__}")
        return rows
    return _lines(text, path)


def _lines(text: str, path: Path) -> Iterator[object]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield _json(line, f"{path}, line {number}")


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise RowError(f"{where}: no JSON: {error}") from None


def _parquet(path: Path) -> Iterable[object]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise RowError(f"reading {path} needs pyarrow: pip install pyarrow") from None
    try:
        rows: list[object] = pyarrow.parquet.read_table(path).to_pylist()
    except (OSError, ValueError) as error:
        raise RowError(f"cannot read {path}: {error}") from None
    return rows


def _hub(source: str) -> Iterable[object]:
    name, _, split = source.partition(":")
    name, split = HUB.get(name, (name, split or "test"))
    try:
        import datasets
    except ImportError:
        raise RowError(f"reading {source} from the hub needs datasets: pip install datasets") from None
    try:
        return ({**row, "dataset_name": name} for row in datasets.load_dataset(name, split=split))
    except Exception as error:  # noqa: BLE001 - offline, unknown, gated: it raises many things, and one line says it
        raise RowError(f"cannot load {name} ({split}) from the hub: {type(error).__name__}: {error}") from None
