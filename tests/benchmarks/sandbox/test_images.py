"""Containers from an image, as SWE-bench has one for each task."""

import io
import shutil
import subprocess
import tarfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.judge import judge
from benchmarks.swebench.places import open_place
from benchmarks.swebench.records import AgentRecord, ArmFolder
from benchmarks.swebench.sandbox import BubblewrapSandboxes, ContainerSandboxes, SandboxError
from benchmarks.swebench.sandbox.client import PROGRAMS, Client
from benchmarks.swebench.sandbox.containers import SWEBENCH_PYTHON
from benchmarks.swebench.tasks import Task

IMAGE = "localhost/concur-swebench-test:1"
TOOLS = ("bash", "cat", "chmod", "env", "grep", "id", "ls", "rm", "touch")
"""An image has to have a bash; the others are for the tests."""


def libraries(program: str) -> set[str]:
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return {word for line in said.splitlines() for word in line.split() if word.startswith("/")}


def archive() -> bytes:
    """A root file system of a few tools, with a repository at ``/testbed`` and an environment as SWE-bench has."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", dereference=True) as tar:
        tools = [found for tool in TOOLS if (found := shutil.which(tool))]
        files = {f"/bin/{Path(tool).name}": tool for tool in tools}
        for library in set().union(*(libraries(tool) for tool in tools)):
            files[library] = library
        for inside, path in sorted(files.items()):
            tar.add(path, arcname=inside.lstrip("/"))
        python = "#!/bin/bash\necho 42\n"
        texts = {"testbed/code.py": "bug\n", f"{SWEBENCH_PYTHON}/python": python, "opt/secret": "of root\n"}
        for name, text in texts.items():
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mtime = len(text), int(time.time())
            entry.mode = 0o755 if text == python else 0o600 if "secret" in name else 0o644
            tar.addfile(entry, io.BytesIO(text.encode()))
        for name, mode in (("tmp", 0o1777), ("proc", 0o755), ("dev", 0o755), ("sys", 0o755), ("anybodys", 0o777)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
    return buffer.getvalue()


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=PROGRAMS)
async def images(request: pytest.FixtureRequest, works) -> AsyncIterator[ContainerSandboxes]:
    if why := works(request.param):
        pytest.skip(why)
    client = Client(request.param)
    client.call("import", "-", IMAGE, given=archive())
    async with ContainerSandboxes(request.param, image=IMAGE) as sandboxes:
        yield sandboxes
    client.call("image", "rm", "--force", IMAGE)


async def ran(images: ContainerSandboxes, command: str) -> str:
    sandbox = await images.open(await images.workspace_of(IMAGE), image=IMAGE)
    try:
        return (await sandbox.run(command, timeout=60)).output
    finally:
        await sandbox.close()


async def test_the_images_repository_is_the_workspace_and_its_python_the_one_on_the_path(
    images: ContainerSandboxes,
) -> None:
    assert await ran(images, "ls; cat code.py; python; echo more >> code.py && cat code.py") == (
        "code.py\nbug\n42\nbug\nmore\n"
    )


async def test_what_an_agent_changed_is_found_against_the_image(images: ContainerSandboxes) -> None:
    workspace = await images.workspace_of(IMAGE)
    sandbox = await images.open(workspace, image=IMAGE)
    await sandbox.run("echo fix > code.py; touch new", timeout=60)
    left = await sandbox.changes(limit=1000)
    await sandbox.close()
    assert left == {"code.py": b"fix\n", "new": b""}
    judged = await images.open(workspace, left, image=IMAGE)
    assert (await judged.run("cat code.py", timeout=60)).output == "fix\n"
    await judged.close()


async def test_nothing_of_the_image_can_be_written_nor_its_roots_files_read(images: ContainerSandboxes) -> None:
    output = await ran(images, "touch /anybodys/x /bin/x; cat /opt/secret; echo x > /tmp/y && ls /tmp; id -u")
    assert output.count("Read-only file system") == 2
    assert "of root" not in output
    *_, file, uid = output.split()
    assert (file, uid == "0") == ("y", False)


async def test_the_host_is_not_there(images: ContainerSandboxes) -> None:
    assert "No such file or directory" in await ran(images, f"ls /usr/share /opt/swebench {Path(__file__).parent}")


@pytest.mark.parametrize("image", ["--privileged", "a b", "", "-v/:/host", "x;y"])
async def test_a_rows_image_cannot_be_a_flag(images: ContainerSandboxes, template: Path, image: str) -> None:
    with pytest.raises(SandboxError, match="not the name of an image"):
        await images.workspace_of(image)
    if image:  # else the factory's own
        with pytest.raises(SandboxError, match="not the name of an image"):
            await images.open(template, image=image)


async def test_an_image_that_cannot_be_had_is_named_with_what_the_program_says(images: ContainerSandboxes) -> None:
    for _ in range(2):  # the failure is not kept as the answer for ever
        with pytest.raises(SandboxError, match=r"pull failed.*localhost/concur-absent"):
            await images.workspace_of("localhost/concur-absent:1")


async def test_a_repository_is_set_up_once_for_all_who_need_it_so(images: ContainerSandboxes) -> None:
    plain = await images.workspace_of(IMAGE)
    setup = "# " + "x" * 140_000 + "\necho of $PWD >> code.py; python > made; ls -a .git"
    first, second = [await images.workspace_of(IMAGE, setup) for _ in range(2)]
    other = await images.workspace_of(IMAGE, "rm code.py")
    assert first == second
    assert len({plain, first, other}) == 3
    sandbox = await images.open(first, image=IMAGE)
    assert (
        await sandbox.run("ls; ls .git; cat code.py made", timeout=60)
    ).output == "code.py\nmade\nbug\nof /testbed\n42\n"
    await sandbox.run("echo fix > code.py", timeout=60)
    assert await sandbox.changes(limit=1000) == {"code.py": b"fix\n"}
    await sandbox.close()
    assert (plain / "code.py").read_text() == "bug\n"


async def test_a_repository_that_cannot_be_set_up_is_said_each_time(images: ContainerSandboxes) -> None:
    for _ in range(2):
        with pytest.raises(SandboxError, match=f"{IMAGE} cannot be set up: it does not fit"):
            await images.workspace_of(IMAGE, "echo it does not fit; exit 3")


class Scoring:
    """As the swebench package would score: by what its script prints."""

    setup = ""
    timeout_s = 60.0
    script = "# " + "x" * 140_000 + "\ncat code.py; python; for ((i = 0; i < 20000; i++)); do echo $i; done"

    def resolved(self, output: str) -> bool:
        return output.startswith("fix\n42\n") and output.count("\n") == 20_002


@pytest.fixture
def task() -> Task:
    return Task(
        task_id="a",
        package="",
        problem="Broken.",
        test_command="python",
        workspace=Path(),
        packages=Path(),
        solution=(),
        image=IMAGE,
        official=Scoring(),
    )


async def test_what_agents_left_is_scored_in_the_tasks_image(
    images: ContainerSandboxes, task: Task, tmp_path: Path
) -> None:
    folder = ArmFolder(tmp_path / "arm")
    folder.create()
    left = {"001": {"code.py": b"fix\n"}, "002": {"code.py": b"no\n"}, "003": {}}
    for name, files in left.items():
        folder.write_left(name, files)
        folder.write_agent(
            AgentRecord(agent_id=name, task_id="a", seed=1, outcome="completed", started_s=0.0, ended_s=1.0)
        )
    await judge(folder, [AgentPlan(name, task, 1) for name in left], images)
    assert [record.error for record in folder.agents()] == [None] * 3
    assert [record.resolved for record in folder.agents()] == [True, False, False]
    assert (folder.path / "tests" / "001.log").read_text().endswith("\n19999\n")
    assert sorted(path.name for path in (folder.path / "tests").iterdir()) == ["001.log", "002.log"]


async def test_official_tests_may_take_longer_than_an_agents_command(images: ContainerSandboxes, task: Task) -> None:
    seconds = []
    for tests in (False, True):
        sandbox = await open_place(images, task, tests=tests)
        seconds.append(int((await sandbox.run("ulimit -t", timeout=60)).output))
        await sandbox.close()
    assert seconds == [120, 1800]


async def test_an_image_needs_a_container(task: Task) -> None:
    async with BubblewrapSandboxes() as sandboxes:
        with pytest.raises(SandboxError, match=f"{IMAGE}.* in containers only: use podman or docker"):
            await open_place(sandboxes, task)
        with pytest.raises(SandboxError, match="in containers only"):
            await sandboxes.open(Path(__file__).parent, image=IMAGE)


async def test_no_container_is_left(images: ContainerSandboxes) -> None:
    assert images._client.call("ps", "--all", "--quiet", "--filter", f"label=concur-swebench={images._root}") == ""
