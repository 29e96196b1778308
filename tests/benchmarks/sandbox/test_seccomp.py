"""Each system call that the filter refuses is tried inside; what programs need goes through."""

import ctypes
import errno
import json

import pytest
import pytest_asyncio

from benchmarks.swebench.sandbox import Sandbox, SandboxUnavailable, check_available, seccomp
from benchmarks.swebench.sandbox.copies import CopiedSandboxes
from benchmarks.swebench.sandbox.seccomp import DANGEROUS, FAMILIES, NAMESPACES, REFUSED, compiled_filter

FLAGS = [1 << bit for bit in range(32) if NAMESPACES & (1 << bit)]
TRY = """
import ctypes, json, sys
libc = ctypes.CDLL(None, use_errno=True)
said = {}
for key, (number, first) in json.loads(sys.argv[1]).items():
    ctypes.set_errno(0)
    result = libc.syscall(number, first, 0, 0, 0, 0, 0)
    said[key] = ctypes.get_errno() if result == -1 else 0
print(json.dumps(said))
"""


def number_of(name: str) -> int:
    """On this machine; below 0 where it has no such call."""
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return -1
    return library.seccomp_syscall_resolve_name(name.encode())


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def errors(sandboxes: CopiedSandboxes, template) -> dict[str, int]:
    """The errno of each call, made in a sandbox; 0 where it succeeded."""
    calls = {name: (number_of(name), 0) for name in REFUSED | DANGEROUS if number_of(name) >= 0}
    calls |= {f"clone {flag:#x}": (number_of("clone"), flag) for flag in FLAGS}
    calls |= {f"socket {family}": (number_of("socket"), family) for family in FAMILIES}
    sandbox = await sandboxes.open(template)
    result = await sandbox.run(f"python -c '{TRY}' '{json.dumps(calls)}'", timeout=60)
    await sandbox.close()
    return json.loads(result.output)


ALONE = pytest.mark.parametrize("kind", ["bubblewrap"], indirect=True)
"""Containers have their program's profile for the rest."""


@pytest.mark.parametrize("name", sorted(REFUSED))
async def test_a_refused_call_is_as_one_that_there_is_not(errors: dict[str, int], name: str, kind: str) -> None:
    if number_of(name) < 0:
        pytest.skip("this kind of machine has no such call")
    # A program's own profile may refuse it before ours does.
    assert errors[name] in ((errno.ENOSYS,) if kind == "bubblewrap" else (errno.ENOSYS, errno.EPERM))


@ALONE
@pytest.mark.parametrize("name", sorted(DANGEROUS))
async def test_a_dangerous_call_is_as_one_that_there_is_not(errors: dict[str, int], name: str) -> None:
    if number_of(name) < 0:
        pytest.skip("this kind of machine has no such call")
    assert errors[name] == errno.ENOSYS


@pytest.mark.parametrize("flag", FLAGS)
async def test_no_process_is_made_in_a_namespace_of_its_own(errors: dict[str, int], flag: int) -> None:
    assert errors[f"clone {flag:#x}"] in (errno.EPERM, errno.ENOSYS)


@ALONE
@pytest.mark.parametrize("family", FAMILIES)
async def test_a_socket_that_no_network_namespace_divides_is_not_made(errors: dict[str, int], family: int) -> None:
    assert errors[f"socket {family}"] == errno.EAFNOSUPPORT


async def test_what_programs_need_goes_through(sandbox: Sandbox) -> None:
    program = (
        "import multiprocessing, socket, subprocess, threading\n"
        "thread = threading.Thread(target=print, args=(1,)); thread.start(); thread.join()\n"
        'print(subprocess.run(["echo", "2"], capture_output=True, text=True).stdout.strip())\n'
        'with multiprocessing.get_context("fork").Pool(2) as pool: print(pool.map(abs, [-3])[0])\n'
        'one, other = socket.socketpair(); one.send(b"4"); print(other.recv(1).decode())\n'
    )
    result = await sandbox.run(f"python -c '{program}'", timeout=60)
    assert result.output.split() == ["1", "2", "3", "4"]


def test_a_machine_without_libseccomp_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(seccomp.ctypes, "CDLL", missing)
    for check in (compiled_filter, check_available):
        with pytest.raises(SandboxUnavailable, match="apt-get install libseccomp2"):
            check()


def test_a_call_that_libseccomp_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compiled_filter()
    monkeypatch.setattr(seccomp, "DANGEROUS", DANGEROUS | {"a_call_of_the_future"})
    assert compiled_filter() == whole


def test_the_filter_fits_a_pipe_that_nobody_reads_yet() -> None:
    program = compiled_filter()
    assert (len(program) % 8, 0 < len(program) < 16_384) == (0, True)
