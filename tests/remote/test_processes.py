"""Real processes that are killed, stopped and started again: nobody is lost, no seat is leaked, nothing hangs."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from concur_agents import Controller, UnknownAgentError
from concur_agents.remote import UnreachableError

WORKER = Path(__file__).parent / "worker.py"
NOWHERE = "http://127.0.0.1:9"
Until = Callable[..., None]


class Processes:
    """Started here, and ended here."""

    def __init__(self, folder: Path) -> None:
        self.gate = folder / "gate"
        self.all: list[subprocess.Popen[str]] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self, *command: str, **env: str) -> subprocess.Popen[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("CONCUR_")}
        process = subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean | env
        )
        self.all.append(process)
        return process

    def serve(self, *options: str, window: int = 4) -> subprocess.Popen[str]:
        """A controller; always at the same address."""
        process = self.start(
            *("-m", "concur_agents.cli", "serve", "--engine", NOWHERE, "--port", str(self.port)),
            *("--law", f"fixed:{window}", "--lease", "2", "--in-flight", "3", *options),
        )
        assert process.stdout is not None
        assert process.stdout.readline().strip() == self.url, process.communicate()
        return process

    def work(
        self, first: int, agents: int, steps: int = 4, seconds: float = 0.02, *, gated: bool = False
    ) -> subprocess.Popen[str]:
        """A process of agents; gated ones go on until :meth:`end`."""
        gate = [str(self.gate)] if gated else []
        process = self.start(str(WORKER), self.url, *(str(each) for each in (first, agents, steps, seconds)), *gate)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "ready", process.communicate()
        return process

    def end(self) -> None:
        self.gate.touch()

    def stats(self) -> Any:
        return httpx.get(self.url + "/concur/v1/stats", timeout=30).json()

    def agents(self) -> dict[str, str]:
        page = httpx.get(self.url + "/concur/v1/agents", timeout=30).json()
        return {each["agent_id"]: each["state"] for each in page["agents"]}


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    yield made
    for process in made.all:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.kill()
        process.communicate()


def done(worker: subprocess.Popen[str], agents: range) -> str:
    """Wait for its end; every agent has finished."""
    out, err = worker.communicate(timeout=120)
    assert worker.returncode == 0, err
    assert set(out.split()) == {*(f"agent{number}" for number in agents), "done"}
    return err


def test_several_processes_share_one_window(processes: Processes, serve: Callable[..., Any]) -> None:
    service = serve(3)
    processes.url = service.url
    workers = [processes.work(10 * number, 10, seconds=0.1) for number in range(3)]
    seated = set()
    while any(worker.poll() is None for worker in workers):
        seated.add(service.controller.stats().population.seated)
    for number, worker in enumerate(workers):
        assert done(worker, range(10 * number, 10 * number + 10)) == ""
    assert max(seated) == 3
    stats = processes.stats()
    assert (stats["finished"], stats["population"]["seated"], stats["known"]) == ({"completed": 30}, 0, 0)
    assert stats["prompt_tokens"] == 30 * 4 * 100


def test_a_killed_controller_is_replaced_and_nobody_is_lost(processes: Processes, until_true: Until) -> None:
    first = processes.serve()
    workers = [processes.work(0, 12, gated=True), processes.work(12, 12, gated=True)]
    until_true(lambda: processes.stats()["known"] == 24)
    first.kill()
    first.communicate()
    processes.serve()
    until_true(lambda: processes.stats()["known"] == 24)
    processes.end()
    for number, worker in enumerate(workers):
        done(worker, range(12 * number, 12 * number + 12))
    stats = processes.stats()
    assert (stats["population"]["seated"], stats["known"]) == (0, 0)


def test_without_a_controller_they_go_on_and_come_back(processes: Processes, until_true: Until) -> None:
    first = processes.serve(window=2)
    worker = processes.work(0, 12, gated=True)
    until_true(lambda: processes.stats()["population"]["generating"] == 2)
    first.kill()
    first.communicate()
    assert worker.stderr is not None
    assert "cannot be asked" in worker.stderr.readline()
    processes.serve(window=2)
    assert "is back" in worker.stderr.readline()
    until_true(lambda: processes.stats()["known"] == 12 and processes.stats()["population"]["seated"] == 2)
    processes.end()
    done(worker, range(12))
    assert processes.agents() == {}


def test_a_hung_controller_is_as_good_as_none(processes: Processes, until_true: Until) -> None:
    controller = processes.serve(window=2)
    worker = processes.work(0, 6, gated=True)
    until_true(lambda: processes.stats()["population"]["generating"] == 2)
    controller.send_signal(signal.SIGSTOP)
    assert worker.stderr is not None
    assert "cannot be asked" in worker.stderr.readline()
    controller.send_signal(signal.SIGCONT)
    assert "is back" in worker.stderr.readline()
    processes.end()
    done(worker, range(6))
    until_true(lambda: processes.agents() == {})
    assert processes.stats()["population"]["seated"] == 0


def test_agents_of_a_killed_process_end_and_others_get_their_seats(processes: Processes, until_true: Until) -> None:
    processes.serve(window=2)
    killed = processes.work(0, 4, 1, 3600)
    until_true(lambda: processes.stats()["population"]["generating"] == 2)
    killed.kill()
    killed.communicate()
    worker = processes.work(10, 3)
    until_true(lambda: not {f"agent{number}" for number in range(4)} & set(processes.agents()))
    done(worker, range(10, 13))
    assert processes.stats()["finished"] == {"completed": 3, "cancelled": 2}, "two had never begun"


def test_a_stopped_process_comes_back_and_loses_nobody(processes: Processes, until_true: Until) -> None:
    processes.serve(window=2)
    stopped = processes.work(0, 6, gated=True)
    until_true(lambda: processes.stats()["population"]["generating"] == 2)
    stopped.send_signal(signal.SIGSTOP)
    other = processes.work(10, 2)
    done(other, range(10, 12))  # its seats go to others, when what it may have had in the engine is over
    until_true(lambda: processes.agents() == {})
    stopped.send_signal(signal.SIGCONT)
    until_true(lambda: len(processes.agents()) == 6)
    processes.end()
    done(stopped, range(6))
    until_true(lambda: processes.agents() == {})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_controller_while_agents_wait(
    processes: Processes, until_true: Until, number: signal.Signals
) -> None:
    controller = processes.serve(window=1)
    worker = processes.work(0, 5, 30)
    until_true(lambda: processes.stats()["population"]["waiting"] >= 3)
    controller.send_signal(number)
    _, err = controller.communicate(timeout=60)
    assert (controller.returncode, "Traceback" in err) == (0, False), err
    done(worker, range(5))


def test_a_forked_child_is_another_worker(serve: Callable[..., Any], until_true: Until) -> None:
    service = serve(4)
    code = f"""
import os, sys
from concur_agents import Controller
concur = Controller.connect({service.url!r})
with concur.sync.agent("parent") as agent:
    with agent.step():
        pass
    child = os.fork()
    with concur.sync.agent("child" if child == 0 else "sibling", parent=None) as other:
        with other.step():
            pass
        concur.flush()
        views = {{view.agent_id: view.state.value for view in concur.agents()}}
        assert views["parent"] == "in_tool", views
        assert views[other.agent_id] == "in_tool", views
    if child == 0:
        with agent.step():  # the parent's: another agent here
            assert any(view.agent_id.startswith("parent~") for view in concur.agents())
        concur.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert concur.view("parent").state.value == "in_tool"
concur.close()
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    until_true(lambda: service.controller.agents() == ())


def test_nothing_listens_from_the_beginning(caplog: pytest.LogCaptureFixture) -> None:
    with Controller.connect(NOWHERE, patience_s=0.1) as concur:
        with concur.sync.agent("a") as agent:
            for _ in range(3):
                with agent.step() as step:
                    step.observe({"prompt_tokens": 1})
        assert [record.message for record in caplog.records if "cannot be asked" in record.message] == [
            caplog.records[0].message
        ]
        with pytest.raises(UnreachableError, match="is gone"):
            concur.stats()
        assert concur.finish("somebody") is False
        with pytest.raises(UnknownAgentError):
            concur.pause("somebody")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b"\x00\x01\x02"])
def test_what_is_no_controller_is_as_good_as_none(said: bytes) -> None:
    """It takes connections and never answers, or says something else."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        taken: list[socket.socket] = []
        stopped = threading.Event()

        def accept() -> None:
            while not stopped.is_set():
                with contextlib.suppress(TimeoutError):
                    connection, _ = listener.accept()
                    taken.append(connection)
                    if said:
                        connection.sendall(said)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with Controller.connect(url, patience_s=0.2) as concur, concur.sync.agent("a") as agent, agent.step():
                pass
        finally:
            stopped.set()
            thread.join()
            for connection in taken:
                connection.close()
