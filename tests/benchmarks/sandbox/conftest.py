import inspect
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from benchmarks.swebench.sandbox import BubblewrapSandboxes, Limits, Sandbox, SandboxUnavailable, check_available

MIB = 1024 * 1024
TIGHT = Limits(
    processes=32,
    address_space_bytes=256 * MIB,
    cpu_seconds=1,
    file_bytes=MIB,
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
def _usable() -> None:
    try:
        check_available()
    except SandboxUnavailable as error:
        pytest.fail(f"these tests are part of the suite: {error}")


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
async def sandboxes(packages: Path) -> AsyncIterator[BubblewrapSandboxes]:
    async with BubblewrapSandboxes(packages=packages) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def tight_sandboxes() -> AsyncIterator[BubblewrapSandboxes]:
    async with BubblewrapSandboxes(limits=TIGHT) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def sandbox(sandboxes: BubblewrapSandboxes, template: Path) -> AsyncIterator[Sandbox]:
    opened = await sandboxes.open(template)
    yield opened
    await opened.close()


@pytest_asyncio.fixture(loop_scope="session")
async def tight(tight_sandboxes: BubblewrapSandboxes, template: Path) -> AsyncIterator[Sandbox]:
    opened = await tight_sandboxes.open(template)
    yield opened
    await opened.close()
