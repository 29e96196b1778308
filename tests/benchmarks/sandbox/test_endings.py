"""How a command ends, whatever ends it, and that nothing of it is left."""

import asyncio
import itertools
import os
import select
import signal
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path

import pytest

from benchmarks.swebench.sandbox import CommandResult, Sandbox, SandboxError, sandboxes_of
from benchmarks.swebench.sandbox.scratch import Scratch

NAMES = (f"concur-test-{os.getpid()}-{number}" for number in itertools.count())
LEAVES_CHILDREN = {
    "background": "(exec -a {name} sleep 999) &",
    "own session": "setsid bash -c 'exec -a {name} sleep 999' > /dev/null 2>&1 < /dev/null &",
    "orphan": "( (trap '' TERM HUP; exec -a {name} sleep 999) & )",
}


def pids(name: str) -> list[int]:
    """Processes of this machine that call themselves so."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().split(b"\0")[0] == name.encode():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


async def ready(sandbox: Sandbox, task: asyncio.Task[CommandResult]) -> None:
    """Wait until the command has written the file ``ready``."""
    while not task.done():
        try:
            await sandbox.read("ready", limit=1)
        except SandboxError:
            await asyncio.sleep(0)
        else:
            return
    raise AssertionError(f"ended before it was ready: {task.result()}")


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill $$", 143)])
async def test_the_exit_code_is_the_commands(sandbox: Sandbox, command: str, code: int) -> None:
    result = await sandbox.run(command, timeout=60)
    assert (result.exit_code, result.timed_out, result.truncated) == (code, False, False)


async def test_output_is_both_streams_in_order_and_always_text(sandbox: Sandbox) -> None:
    result = await sandbox.run("echo a; echo b >&2; printf '\\xff\\x00'; echo c", timeout=60)
    assert result.output == "a\nb\n\ufffd\0c\n"


async def test_huge_output_keeps_head_and_tail_and_says_what_is_missing(tight: Sandbox) -> None:
    result = await tight.run("seq 1 100000", timeout=60)
    head, gap, tail = result.output.partition("\n[... 584799 bytes left out ...]\n")
    assert (result.exit_code, result.truncated, bool(gap)) == (0, True, True)
    assert head.startswith("1\n2\n")
    assert tail.endswith("99999\n100000\n")
    assert len(head) == len(tail) == 2048


async def test_a_flood_of_output_is_killed_at_the_limit(tight: Sandbox) -> None:
    result = await tight.run("yes; echo never", timeout=60)
    assert (result.exit_code, result.timed_out, result.truncated) == (None, False, True)
    assert len(result.output) < 5000


async def test_endless_output_below_the_limit_ends_at_the_timeout(sandbox: Sandbox) -> None:
    result = await sandbox.run("while :; do echo x; sleep 0.01; done", timeout=1.5)
    assert (result.exit_code, result.timed_out, result.truncated) == (None, True, False)
    assert result.output.startswith("x\n")


async def test_a_timeout_keeps_the_output_so_far(sandbox: Sandbox) -> None:
    result = await sandbox.run("echo before; sleep 999", timeout=1.5)
    assert (result.output, result.timed_out) == ("before\n", True)


async def test_a_command_that_closes_its_output_is_still_waited_for(sandbox: Sandbox) -> None:
    result = await sandbox.run("exec > /dev/null 2>&1; sleep 0.05; touch done; exit 4", timeout=60)
    assert result.exit_code == 4
    assert await sandbox.read("done", limit=1) == b""


@pytest.mark.parametrize("how", LEAVES_CHILDREN)
async def test_children_die_with_their_command(sandbox: Sandbox, how: str) -> None:
    name = next(NAMES)
    started = f"until grep -qs {name} /proc/[0-9]*/cmdline; do :; done; touch started"
    result = await sandbox.run(f"{LEAVES_CHILDREN[how].format(name=name)}\n{started}", timeout=60)
    assert result.exit_code == 0
    assert await sandbox.read("started", limit=1) == b""
    assert pids(name) == []


@pytest.mark.parametrize("how", LEAVES_CHILDREN)
async def test_children_die_at_a_timeout(sandbox: Sandbox, how: str) -> None:
    name = next(NAMES)
    result = await sandbox.run(f"{LEAVES_CHILDREN[how].format(name=name)}\nsleep 999", timeout=0.3)
    assert result.timed_out
    assert pids(name) == []


async def test_a_cancel_goes_on_only_when_the_tree_is_dead(sandbox: Sandbox) -> None:
    name = next(NAMES)
    command = f"{LEAVES_CHILDREN['own session'].format(name=name)}\necho up > ready; exec -a {name} sleep 999"
    task = asyncio.create_task(sandbox.run(command, timeout=60))
    await ready(sandbox, task)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pids(name) == []


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13])
async def test_a_cancel_while_starting_leaves_nothing(sandbox: Sandbox, turns: int) -> None:
    name = next(NAMES)
    task = asyncio.create_task(sandbox.run(f"exec -a {name} sleep 999", timeout=60))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pids(name) == []


async def test_closing_kills_what_runs_and_its_caller_is_told(sandbox: Sandbox) -> None:
    name = next(NAMES)
    task = asyncio.create_task(sandbox.run(f"echo up > ready; exec -a {name} sleep 999", timeout=60))
    await ready(sandbox, task)
    await sandbox.close()
    with pytest.raises(SandboxError, match="closed while the command ran"):
        await task
    assert pids(name) == []


async def test_a_closed_sandbox_refuses_and_closes_again(sandbox: Sandbox) -> None:
    await sandbox.close()
    await sandbox.close()
    for attempt in (sandbox.run("true", timeout=60), sandbox.read("given.txt", limit=1)):
        with pytest.raises(SandboxError, match="is closed"):
            await attempt


async def test_a_command_may_lock_itself_out_of_the_workspace(sandbox: Sandbox) -> None:
    await sandbox.run("chmod 000 .", timeout=60)
    assert (await sandbox.run("cat given.txt", timeout=60)).output == "given\n"


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("x" * 200_000, 126, "at most 131071 bytes"),
        ("echo \0", 126, "without NUL"),
        ("echo \ud800", 0, "?\n"),
        ("if", 2, "syntax error"),
        ("", 0, ""),
    ],
)
async def test_odd_commands_are_results_not_errors(sandbox: Sandbox, command: str, code: int, says: str) -> None:
    result = await sandbox.run(command, timeout=60)
    assert result.exit_code == code
    assert says in result.output


async def test_many_at_once(sandbox: Sandbox, kind: str) -> None:
    many = range(64 if kind == "bubblewrap" else 16)
    runs: list[Awaitable] = [sandbox.run(f"echo {number}", timeout=60) for number in many]
    assert [result.output for result in await asyncio.gather(*runs)] == [f"{number}\n" for number in many]


async def test_leaving_the_factory_removes_everything(kind: str, template: Path) -> None:
    async with sandboxes_of(kind) as sandboxes:
        sandbox = await sandboxes.open(template)
        task = asyncio.create_task(sandbox.run("echo up > ready; sleep 999", timeout=60))
        await ready(sandbox, task)
        root = sandbox._root.parent
    with pytest.raises(SandboxError):
        await task
    assert not root.exists()
    with pytest.raises(SandboxError, match="async with"):
        await sandboxes.open(template)


async def test_a_run_that_begins_leaves_another_runs_commands_alone(sandbox: Sandbox, kind: str) -> None:
    command = "echo up > ready; while [ ! -e go ]; do sleep 0.05; done; echo done"
    task = asyncio.create_task(sandbox.run(command, timeout=120))
    await ready(sandbox, task)
    async with sandboxes_of(kind):
        pass
    assert not task.done()
    (sandbox._workspace / "go").touch()
    assert (await task).output == "done\n"


KILLED = """
import asyncio, sys
from pathlib import Path
from benchmarks.swebench.sandbox import sandboxes_of
async def main():
    async with sandboxes_of(sys.argv[3]) as sandboxes:
        sandbox = await sandboxes.open(Path(sys.argv[1]))
        print(sandbox._root.parent, flush=True)
        await sandbox.run(f"exec -a {sys.argv[2]} sleep 999", timeout=999)
asyncio.run(main())
"""


def test_a_killed_run_leaves_no_process_and_the_next_run_removes_its_folder(kind: str, template: Path) -> None:
    name = next(NAMES)
    program = [sys.executable, "-c", KILLED, str(template), name, kind]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as run:
        assert run.stdout is not None
        folder = Path(run.stdout.readline().strip())
        while not (found := pids(name)):
            assert run.poll() is None
            os.sched_yield()
        inside = os.pidfd_open(found[0])
        run.send_signal(signal.SIGKILL)
    assert select.select([inside], [], [], 60)[0], "still alive"
    os.close(inside)
    assert folder.is_dir()
    Scratch(uid=None).remove()
    assert not folder.exists()
