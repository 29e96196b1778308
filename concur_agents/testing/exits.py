"""An adapter's agents in a process that is told to end: one in a tool, others queued behind it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import inspect
import json
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from concur_agents.testing.performing import perform
from concur_agents.testing.play import PATIENCE_S, Play
from concur_agents.testing.scene import Scene

if TYPE_CHECKING:
    from concur_agents.testing.contract import AdapterContract

__all__ = ["IMPORT_S", "INTERRUPT_AGAIN_S", "run_in_process"]

_READY = "agents are running"
IMPORT_S = 120.0
"""Seconds that a framework's imports may take on a busy machine."""
INTERRUPT_AGAIN_S = 10.0
"""Seconds after which an interrupt that nothing came of is sent again: longer than any run takes to end."""


def run_in_process(contract: type[AdapterContract]) -> None:
    """Run agents in a new process, interrupt it as Ctrl-C does, and check what it says when it has ended.

    Raises:
        AssertionError: it does not end, or an agent has not finished exactly once.
    """
    command = [sys.executable, "-m", __name__, inspect.getfile(contract), contract.__qualname__]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        alarm = threading.Timer(PATIENCE_S + IMPORT_S, process.kill)
        alarm.start()
        try:
            assert process.stdout is not None
            first = process.stdout.readline().strip()
            out, err = _interrupt(process) if first == _READY else process.communicate()
        finally:
            alarm.cancel()
    assert first == _READY, f"agents did not start in a new process: {first}\n{err}"
    assert process.returncode == 0, f"the process ended with {process.returncode}: {err}"
    assert json.loads(out.splitlines()[-1]) == {"left": 0, "agent": ["admitted", "paused", "finished"]}, f"{out}\n{err}"


def _interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    while True:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=INTERRUPT_AGAIN_S)


def _main(path: str, name: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # inherited as ignored from a program in the background
    spec = importlib.util.spec_from_file_location("contract_under_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    contract: Any = module
    for part in name.split("."):
        contract = getattr(contract, part)
    contract = contract()
    with Play(contract.run, contract.tool_name, contract.tool_argument, contract.last) as play:
        scene, queued = play.scene("block"), [play.scene("echo") for _ in range(3)]
        threads = [threading.Thread(target=_run, args=(contract.run, each)) for each in queued]

        def director(_: object) -> None:
            play.wait_for("tool", scene.agent_id)
            for thread in threads:
                thread.start()
            play.wait_queued(len(queued))
            print(_READY, flush=True)  # noqa: T201 - said to the process that waits for it

        perform(play, contract.run, scene, director)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it was heard; another one would only hit what follows
        play.close_controller()  # those that are queued go on without: they must not keep the process
        for thread in threads:
            thread.join()
        lives = play.lives()
        left = len(play.controller.agents())
    kinds = [str(kind) for kind in lives[scene.agent_id]]
    print(json.dumps({"left": left, "agent": kinds}), flush=True)  # noqa: T201 - as above


def _run(run: Any, scene: Scene) -> None:
    result = run(scene)
    if inspect.iscoroutine(result):
        asyncio.run(result)


if __name__ == "__main__":
    _main(*sys.argv[1:])
