"""Load from wrk: a Lua script that plays the agents, and what it says of the replies."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.gateway.arms import find_program
from benchmarks.gateway.children import run
from benchmarks.gateway.workload import AGENTS, TURNS, chat_parts

__all__ = ["LoadError", "Measured", "parse", "press", "script"]

_MARK: Final = "measured: "
_TIMEOUT_S: Final = 30
_LATE_S: Final = 60.0


class LoadError(Exception):
    """The load generator failed. The message has what it printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What wrk saw."""

    requests: int
    per_s: float
    p50_ms: float
    p99_ms: float
    failed: int
    """Connections, reads, writes, timeouts and statuses above 399."""

    def to_json(self) -> dict[str, Any]:
        """For the record."""
        return asdict(self)


def script(batch: str, *, names_agents: bool) -> str:
    """Wrk's script: :data:`AGENTS` agents in turns, each request going on from the agent's last one.

    Args:
        batch: in the agents' names, so that those of one run are not those of another.
        names_agents: say in ``X-Session-ID`` which agent it is.
    """
    head, close, histories = chat_parts()
    said = 'headers["X-Session-ID"] = name' if names_agents else ""
    return f"""\
local histories = {{ {", ".join(map(_quoted, histories))} }}
local count = 0
function request()
  local round = math.floor(count / {AGENTS})
  local name = string.format("{batch}-%d", math.floor(round / {TURNS}) * {AGENTS} + count % {AGENTS})
  local body = {_quoted(head)} .. name .. histories[round % {TURNS} + 1] .. {_quoted(close)}
  count = count + 1
  local headers = {{ ["Content-Type"] = "application/json" }}
  {said}
  return wrk.format("POST", "/v1/chat/completions", headers, body)
end
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\\n{_MARK}{{"requests": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d, "failed": %d}}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""


def parse(printed: str) -> Measured:
    """What the script's last line says.

    Raises:
        LoadError: there is none, or no reply came.
    """
    lines = [line for line in printed.splitlines() if line.startswith(_MARK)]
    if not lines:
        raise LoadError(f"wrk measured nothing:\n{printed[-500:]}")
    said = json.loads(lines[-1].removeprefix(_MARK))
    if not said["requests"]:
        raise LoadError(f"no reply came while wrk ran:\n{printed[-500:]}")
    return Measured(
        requests=said["requests"],
        per_s=said["requests"] / said["duration_us"] * 1e6,
        p50_ms=said["p50_us"] / 1000,
        p99_ms=said["p99_us"] / 1000,
        failed=said["failed"],
    )


async def press(
    url: str, *, batch: str, names_agents: bool, connections: int, seconds: float, folder: Path
) -> Measured:
    """Send requests on so many connections, each as soon as the last was answered.

    Args:
        url: base address of what is measured.
        batch: see :func:`script`.
        names_agents: see :func:`script`.
        connections: at once.
        seconds: for how long; whole ones, as wrk has it.
        folder: for the script.

    Raises:
        FileNotFoundError: wrk is not installed.
        LoadError: wrk failed, or measured nothing.
    """
    path = folder / "agents.lua"
    path.write_text(script(batch, names_agents=names_agents))
    command = [find_program("wrk"), "--threads", "1", "--connections", str(connections)]
    command += ["--duration", f"{max(1, round(seconds))}s", "--timeout", f"{_TIMEOUT_S}s", "--script", str(path), url]
    code, printed = await run(command, seconds + _LATE_S)
    if code:
        raise LoadError(f"wrk ended with {code}:\n{printed[-500:]}")
    return parse(printed)


def _quoted(text: str) -> str:
    return f"[==[{text}]==]"
