"""Containers outlive who started them: somebody has to remove them when this process is killed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from benchmarks.swebench.sandbox.base import SandboxError
from benchmarks.swebench.sandbox.client import Client

__all__ = ["LABEL", "Guard", "remove_left_behind"]

LABEL = "concur-swebench"
"""Every container of ours has it; its value is the folder of the run."""
WAIT_S = 120.0
WATCH = r"""
read -r word
for again in 1 2 3; do
  found=$("$@" ps --all --quiet --filter "label=$0")
  [ -z "$found" ] || "$@" rm --force $found
  [ "$word" = ended ] && exit
  sleep 1
done
"""
"""Removes at once when told that all is over; else we are dead, and what was starting may come up within seconds."""


class Guard:
    """A process that removes all containers of a run when the run's own process is gone, however it went.

    Args:
        client: of the run.
        folder: the run's: the value of their label.
    """

    def __init__(self, client: Client, folder: Path) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", WATCH, f"{LABEL}={folder}", *client.command()],
            env=client.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self) -> None:
        """All is over: remove what is left, and end. Raises SandboxError when it cannot."""
        try:
            self._process.communicate(b"ended\n", timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise SandboxError(f"containers with the label {LABEL} could not be removed in {WAIT_S:g} s") from None


def remove_left_behind(client: Client) -> None:
    """Remove containers of runs whose folders are gone, so that whoever dies with its guard leaves nothing for long."""
    found = client.call("ps", "--all", "--quiet", "--filter", f"label={LABEL}").split()
    for name in found:
        try:
            labels = json.loads(client.call("inspect", "--type=container", "--format={{json .Config.Labels}}", name))
            if not Path(labels[LABEL]).exists():
                client.call("rm", "--force", name)
        except SandboxError:  # it went by itself
            continue
