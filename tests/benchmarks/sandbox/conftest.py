import asyncio
import functools
import inspect
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import pytest_asyncio

from benchmarks.swebench.sandbox import KINDS, Limits, Sandbox, SandboxError, sandboxes_of
from benchmarks.swebench.sandbox.copies import CopiedSandboxes

MIB = 1024 * 1024
TIGHT = Limits(
    processes=32,
    address_space_bytes=256 * MIB,
    cpu_seconds=1,
    file_bytes=MIB,
    memory_bytes=384 * MIB,
    growth_bytes=8 * MIB,
    open_files=32,
    tmp_bytes=MIB,
    kept_output_bytes=4096,
    read_output_bytes=MIB,
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.sandbox)
            if inspect.iscoroutinefunction(getattr(item, "function", None)):
                item.add_marker(pytest.mark.asyncio(loop_scope="session"))


@pytest.fixture(scope="session", autouse=True)
def _runtime_that_works(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Podman's default runtime, crun, refuses cgroups of both versions on one machine; runc does not."""
    with pytest.MonkeyPatch.context() as patch:
        if shutil.which("podman") and shutil.which("runc") and "CONTAINERS_CONF" not in os.environ:
            settings = tmp_path_factory.mktemp("podman") / "containers.conf"
            settings.write_text('[engine]\nruntime = "runc"\n')
            patch.setenv("CONTAINERS_CONF", str(settings))
        yield


@pytest.fixture(scope="session")
def works(_runtime_that_works: None) -> Callable[[str], str]:
    """Why a kind of sandbox does not work on this machine; empty if it does."""

    async def enter(kind: str) -> str:
        try:
            async with sandboxes_of(kind):
                return ""
        except SandboxError as error:
            return str(error)

    @functools.cache
    def why(kind: str) -> str:
        with ThreadPoolExecutor() as elsewhere:  # whoever asks may be in a running loop
            return elsewhere.submit(lambda: asyncio.run(enter(kind))).result()

    return why


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest, works: Callable[[str], str]) -> str:
    """Each kind of sandbox that works here. Bubblewrap has to."""
    if why := works(request.param):
        if request.param == "bubblewrap":
            pytest.fail(f"these tests are part of the suite: {why}")
        pytest.skip(why)
    return request.param


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    (folder / "given.txt").write_text("given\n")
    return folder


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    (folder / "lent.py").write_text("WORTH = 42\n")
    return folder


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sandboxes(kind: str, packages: Path) -> AsyncIterator[CopiedSandboxes]:
    async with sandboxes_of(kind, packages=packages) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def tight_sandboxes(kind: str) -> AsyncIterator[CopiedSandboxes]:
    async with sandboxes_of(kind, limits=TIGHT) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def sandbox(sandboxes: CopiedSandboxes, template: Path) -> AsyncIterator[Sandbox]:
    opened = await sandboxes.open(template)
    yield opened
    await opened.close()


@pytest_asyncio.fixture(loop_scope="session")
async def tight(tight_sandboxes: CopiedSandboxes, template: Path) -> AsyncIterator[Sandbox]:
    opened = await tight_sandboxes.open(template)
    yield opened
    await opened.close()
