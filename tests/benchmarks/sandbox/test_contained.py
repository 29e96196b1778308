"""One test for each threat of the list in ``sandbox/base.py`` that is about what a command can reach or use."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.swebench.sandbox import CommandResult, Sandbox
from benchmarks.swebench.sandbox.copies import CopiedSandboxes

SECRET = "a-secret-that-nobody-inside-may-see"


async def ran(sandbox: Sandbox, command: str) -> CommandResult:
    return await sandbox.run(command, timeout=60)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder on the host that any user may enter: what hides it can only be the sandbox."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize(
    "path", ["/x", "/usr/x", "/etc/x", "/dev/x", "/opt/swebench/packages/x", "/proc/sys/kernel/hostname", "/var/x"]
)
async def test_nothing_outside_the_workspace_can_be_written(sandbox: Sandbox, path: str) -> None:
    result = await ran(sandbox, f"echo written > {path}")
    assert result.exit_code == 1


async def test_workspace_lasts_and_tmp_does_not(sandbox: Sandbox) -> None:
    result = await ran(sandbox, "echo a > kept; echo b > /tmp/gone; echo c > /dev/shm/gone")
    assert (result.exit_code, result.output) == (0, "")
    result = await ran(sandbox, "cat kept given.txt; ls /tmp /dev/shm")
    assert result.output == "a\ngiven\n/dev/shm:\n\n/tmp:\n"


async def test_a_file_of_the_host_cannot_be_read(sandbox: Sandbox, open_folder: Path) -> None:
    secret = open_folder / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o644)
    result = await ran(sandbox, f"cat {secret} /etc/shadow; cat /etc/hosts; find / -name secret; find / -type s")
    assert SECRET not in result.output
    lines = [line for line in result.output.splitlines() if not line.startswith("find: ")]
    assert [line.rpartition(": ")[2] for line in lines[:2]] == ["No such file or directory"] * 2
    assert lines[2:] == ["127.0.0.1 localhost swebench"]


@pytest.mark.parametrize("folder", ["/home", "/run", "/var", "/srv", "/mnt", "/boot"])
async def test_a_folder_of_the_host_has_nothing_but_python(sandbox: Sandbox, folder: str) -> None:
    result = await ran(sandbox, f"find {folder} -path {sys.base_prefix} -prune -o ! -type d -print")
    known = {"/run/.containerenv"}  # says that this is a container, which is no secret
    assert [line for line in result.output.splitlines() if line not in known and "No such file" not in line] == []


async def test_the_hosts_environment_cannot_be_read(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONCUR_TEST_TOKEN", "HTTPS_PROXY", "http_proxy"):
        monkeypatch.setenv(name, SECRET)
    result = await ran(sandbox, "cat /proc/*/environ | tr '\\0' '\\n'; env")
    assert "PATH=" in result.output
    assert SECRET not in result.output


async def test_processes_of_the_host_are_not_there(sandbox: Sandbox) -> None:
    result = await ran(sandbox, "cat /proc/*/cmdline | tr '\\0' ' '")
    assert "bash -c" in result.output
    assert "pytest" not in result.output


async def test_no_descriptor_of_the_parent_is_inherited(sandbox: Sandbox, open_folder: Path) -> None:
    (open_folder / "secret").write_text(SECRET)
    descriptor = os.open(open_folder / "secret", os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        result = await ran(sandbox, "for fd in /proc/self/fd/*; do echo ${fd##*/}; done; cat; cat < /dev/tty")
    finally:
        os.close(descriptor)
    assert result.output.startswith("0\n1\n2\n")
    assert len([line for line in result.output.splitlines() if line.isdigit()]) <= 4  # the glob's own is the fourth
    assert "/dev/tty: No such device" in result.output


CONNECT = (
    "python -c 'import socket, sys; s = socket.socket(socket.{family}); s.connect({address}); print(\"connected\")'"
)


async def test_the_network_is_not_there(sandbox: Sandbox) -> None:
    met = []
    server = await asyncio.start_server(lambda r, w: (met.append(1), w.close()), "127.0.0.1", 0)
    async with server:
        address = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(*address)
        await reader.read()
        writer.close()
        assert met == [1]
        result = await ran(sandbox, CONNECT.format(family="AF_INET", address=f'("127.0.0.1", {address[1]})'))
    assert "ConnectionRefusedError" in result.output
    assert met == [1]


@pytest.mark.parametrize("abstract", [True, False])
async def test_unix_sockets_of_the_host_cannot_be_reached(sandbox: Sandbox, open_folder: Path, abstract: bool) -> None:
    name = f"\0concur-test-{os.getpid()}" if abstract else str(open_folder / "socket")
    met = []
    async with await asyncio.start_unix_server(lambda r, w: (met.append(1), w.close()), name):
        reader, writer = await asyncio.open_unix_connection(name)
        await reader.read()
        writer.close()
        assert met == [1]
        address = '"' + name.replace("\0", "\\0") + '"'
        result = await ran(sandbox, CONNECT.format(family="AF_UNIX", address=address))
    assert ("ConnectionRefusedError" if abstract else "FileNotFoundError") in result.output
    assert met == [1]


BOMB = """
import os, time
made = 0
try:
    while True:
        made += 1
        os.fork() or time.sleep(999)
except OSError:
    print(made)
"""


async def test_a_fork_bomb_meets_the_limit_and_leaves_the_sandbox_usable(tight: Sandbox) -> None:
    result = await ran(tight, f"python - <<'E'{BOMB}E")
    assert int(result.output) <= 32
    assert (await ran(tight, "echo fine")).output == "fine\n"


async def test_memory_is_limited(tight: Sandbox) -> None:
    result = await ran(tight, "python -c 'bytearray(300 * 1024 * 1024)'")
    assert "MemoryError" in result.output


async def test_memory_of_all_processes_together_is_limited_in_containers(tight: Sandbox, kind: str) -> None:
    if kind == "bubblewrap" or "memory" not in tight._client._controllers:
        pytest.skip("there is no memory cgroup")
    take = "python -c 'import time; x = bytearray(200 * 1024 * 1024); print(len(x)); time.sleep(999)'"
    result = await ran(tight, f"{take} & {take} & {take} & wait -n; echo $?")
    assert result.output.splitlines()[-1] == "137"


async def test_a_file_cannot_grow_beyond_the_limit(tight: Sandbox) -> None:
    result = await ran(tight, "head -c 5000000 /dev/zero > big; wc -c < big")
    assert result.output.splitlines()[-1] == str(1024 * 1024)


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
async def test_memory_file_systems_are_limited(tight: Sandbox, folder: str) -> None:
    result = await ran(tight, f"for i in 1 2 3 4; do head -c 1000000 /dev/zero > {folder}/$i || break; done")
    assert "No space left on device" in result.output


async def test_cpu_time_is_limited(tight: Sandbox) -> None:
    result = await ran(tight, "python -c 'while True: pass'")
    assert (result.exit_code, result.timed_out) == (137, False)


async def test_open_files_are_limited(tight: Sandbox) -> None:
    result = await ran(tight, "python -c 'x = [open(\"/dev/null\") for _ in range(64)]'")
    assert "Too many open files" in result.output


async def test_system_calls_are_filtered(sandbox: Sandbox) -> None:
    result = await ran(sandbox, "grep Seccomp: /proc/self/status; grep Seccomp: /proc/1/status")
    assert result.output == "Seccomp:\t2\n" * 2


async def test_a_command_has_no_privileges(sandbox: Sandbox) -> None:
    result = await ran(sandbox, "id -u; grep -E '^(Cap(Eff|Prm|Bnd|Amb)|NoNewPrivs)' /proc/self/status")
    uid, *lines = result.output.splitlines()
    assert uid != "0"
    assert {int(line.split()[1], 16) for line in lines if line.startswith("Cap")} == {0}
    assert "NoNewPrivs:\t1" in lines


@pytest.mark.parametrize(
    "command",
    [
        "mount -t tmpfs none /mnt",
        "mount -o remount,rw,bind /usr",
        "unshare --user --map-root-user true",
        "unshare --mount true",
        "chown 0 given.txt",
        "mknod device b 8 0",
        "chroot . true",
        "setpriv --reuid 0 true",
        "nsenter --target 1 --mount true",
        "unshare --user --map-root-user --net --mount ip link",
        "python -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000))'",
    ],
)
async def test_privileges_cannot_be_gained(sandbox: Sandbox, command: str) -> None:
    result = await ran(sandbox, f"PATH=$PATH:/usr/sbin:/sbin; {command}")
    assert result.exit_code != 0
    assert "command not found" not in result.output


async def test_a_set_user_id_file_gives_nothing(sandbox: Sandbox) -> None:
    result = await ran(sandbox, "cp /usr/bin/id . && chmod 4755 id && ./id -u && ./id -ru")
    assert len(set(result.output.split())) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
async def test_started_as_root_it_is_another_user_outside_too(sandboxes: CopiedSandboxes, template: Path) -> None:
    sandbox = await sandboxes.open(template)
    await ran(sandbox, "touch made")
    found = owners(sandbox._workspace)
    await sandbox.close()
    assert found == {60_999}


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def owners(folder: Path) -> set[int]:
    return {path.stat().st_uid for path in (folder, *folder.rglob("*"))}


async def test_sandboxes_and_their_template_do_not_meet(sandboxes: CopiedSandboxes, template: Path) -> None:
    one, other = await sandboxes.open(template), await sandboxes.open(template)
    await ran(one, "echo mine > given.txt; touch new; sleep 0.1 &")
    result = await ran(other, f"cat given.txt; ls; ls {template}")
    await one.close()
    await other.close()
    assert result.output.startswith("given\ngiven.txt\n")
    assert "No such file or directory" in result.output
    assert names(template) == ["given.txt"]
