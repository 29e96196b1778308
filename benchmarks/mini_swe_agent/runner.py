"""Runs the batch through each arm: one process of mini-swe-agent's runner, on an engine with an empty cache.

Without Concur that is ``mini-extra swebench``, with it ``python -m concur_agents_mini_swe_agent swebench``; the
arguments are the same, and one more ``-c`` names the file with the ``concur:`` block. Through a gateway it is
``mini-extra swebench`` again, and ``api_base`` is the gateway's address.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engines.emulated import register
from benchmarks.engines.engine import Engine
from benchmarks.engines.kinds import Needs
from benchmarks.engines.servers import Servers
from benchmarks.mini_swe_agent.dataset import marker, script_of, write_dataset
from benchmarks.mini_swe_agent.gateway import KIND, Gateway, gateway_arm, law_of, open_gateway, steps_of
from benchmarks.mini_swe_agent.judge import judge
from benchmarks.mini_swe_agent.sandbox import environment
from benchmarks.mini_swe_agent.trajectories import read_records
from benchmarks.swebench.agents import AgentPlan
from benchmarks.swebench.arms import LAW_ARMS, Arm, parse_arms
from benchmarks.swebench.config import RunConfig
from benchmarks.swebench.engine import open_engine
from benchmarks.swebench.records import ArmFolder, RunFolder
from benchmarks.swebench.sandbox import BubblewrapSandboxes

__all__ = ["KINDS", "RunnerError", "run_arms"]

KINDS = {kind: make for kind, make in LAW_ARMS.items() if kind != "config"} | {KIND: gateway_arm}
"""Arms for a runner that is a process of its own: its law is said by a configuration file."""
LOOK_S = 0.02
"""Between looks whether the batch has begun."""
STOP_TIMEOUT_S = 10.0
"""The runner ends its sandboxes' commands; then it is killed."""


class RunnerError(Exception):
    """mini-swe-agent's runner did not do its work. The message says what it said last."""


async def run_arms(
    config: RunConfig, plans: Sequence[AgentPlan], folder: RunFolder, *, tick_s: float, limit_s: float
) -> None:
    """Run every arm ``config.repeats`` times. What has ended leaves its records in ``folder``.

    Args:
        config: of the run.
        plans: the batch.
        folder: for the records.
        tick_s: seconds between Concur's readings.
        limit_s: wall seconds until an arm is given up.

    Raises:
        EngineError: the engine cannot be started or reached.
        SandboxError: sandboxes cannot be set up.
        RunnerError: the runner failed, or took longer than ``limit_s``.
    """
    arms = parse_arms(",".join(config.arms), KINDS)
    with tempfile.TemporaryDirectory(prefix="mini-swe-agent-") as scratch:
        dataset, repositories = Path(scratch) / "dataset", Path(scratch) / "repositories"
        await asyncio.to_thread(write_dataset, plans, dataset, repositories)

        def start(needs: Needs) -> AbstractAsyncContextManager[Engine]:
            return open_engine(config, folder.path / "engine.log", needs)

        async with BubblewrapSandboxes(packages=plans[0].task.packages) as sandboxes, Servers(start) as servers:
            for repeat in range(1, config.repeats + 1):
                shift = (repeat - 1) % len(arms)  # each arm goes first in turn
                for arm in (*arms[shift:], *arms[:shift]):
                    where = folder.arm(arm.name, repeat)
                    where.create()
                    work = Path(tempfile.mkdtemp(dir=scratch))
                    batch = _Batch(config, plans, dataset, repositories, arm, where, work, tick_s, limit_s)
                    if config.embedded:
                        await servers.close()  # a new one takes a second, and has nothing of the arm before
                    engine = await servers.get(arm.needs)
                    await engine.flush()
                    began, closing = await batch.run(engine)
                    await engine.check_alive()
                    records = read_records(work / "out", plans, began)
                    if (gateway := closing.get("gateway")) is not None:
                        gateway["same_steps"] = gateway["steps"] == sorted(len(record.steps) for record in records)
                    await judge(records, plans, work / "out", sandboxes, where.write_agent)
                    where.write_closing(closing)


@dataclass(frozen=True, slots=True)
class _Batch:
    config: RunConfig
    plans: Sequence[AgentPlan]
    dataset: Path
    repositories: Path
    arm: Arm
    folder: ArmFolder
    work: Path
    tick_s: float
    limit_s: float

    async def run(self, engine: Engine) -> tuple[float, dict[str, Any]]:
        """Run the runner to its end; return when its batch began, and what only its end knows."""
        for plan in self.plans:
            await register(engine, plan.agent_id, script_of(plan), match=marker(plan))
        own = engine.cpu_s() or 0.0
        closing: dict[str, Any] = {}
        async with self._gateway(engine) as gateway:
            start = await self._finished(engine, engine.url if gateway is None else gateway.url)
            if gateway is not None:
                closing["gateway"] = await gateway.seen()
        if "gateway" in closing:
            closing["gateway"]["steps"] = steps_of(self._events)
        closing["engine_cpu_s"] = (engine.cpu_s() or 0.0) - own
        closing["capacity_tokens"] = engine.capacity_tokens
        closing["engine"], closing["engine_flags"] = engine.name, engine.about.get("flags")
        return start, closing

    @contextlib.asynccontextmanager
    async def _gateway(self, engine: Engine) -> AsyncIterator[Gateway | None]:
        if not self._through_gateway:
            yield None
            return
        config = Path(self._write("gateway.yaml", self._concur()))
        async with open_gateway(engine.url, config, self.folder.path / "gateway.log") as gateway:
            yield gateway

    async def _finished(self, engine: Engine, url: str) -> float:
        """Run it against ``url``; when its batch began."""
        async with self._started(engine, url) as process:
            try:
                async with asyncio.timeout(self.limit_s):
                    start = await self._begun(process)
                    status = await process.wait()
            except TimeoutError:
                raise RunnerError(f"{self.arm.name} took longer than {self.limit_s:g} s: {self._said()}") from None
        if status:
            raise RunnerError(f"mini-swe-agent's runner ended with status {status}: {self._said()}")
        return start

    async def _begun(self, process: asyncio.subprocess.Process) -> float:
        """When the first agent's working folder was there: until then the runner has only been imported.

        LiteLLM alone takes it seconds, after it says that it runs.
        """
        while process.returncode is None:
            if any((self.work / "tmp").glob("minisweagent-*")):
                break
            await asyncio.sleep(LOOK_S)
        return time.time()

    @contextlib.asynccontextmanager
    async def _started(self, engine: Engine, url: str) -> AsyncIterator[asyncio.subprocess.Process]:
        (self.work / "tmp").mkdir()
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self._command(engine, url),
                cwd=self.work,
                env=self._environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            await _stop(process)

    def _command(self, engine: Engine, url: str) -> list[str]:
        adapted = self.arm.name != "uncontrolled" and not self._through_gateway
        program = [str(Path(sys.executable).with_name("mini-extra"))]
        if adapted:
            program = [sys.executable, "-m", "concur_agents_mini_swe_agent"]
        files = ["swebench.yaml", self._write("batch.yaml", self._batch(engine.model, url))]
        if adapted:
            concur = {"engine": engine.url, **self._concur()}
            files.append(self._write("concur.yaml", {"agent": {"concur": concur}}))
        options = ["--subset", str(self.dataset), "--split", "test", "-w", str(self.config.agents)]
        options += ["-o", str(self.work / "out")]
        for file in files:
            options += ["-c", file]
        return [*program, "swebench", *options]

    def _write(self, name: str, data: Mapping[str, Any]) -> str:
        path = self.work / name
        path.write_text(json.dumps(data, indent=2), encoding="utf-8")  # JSON is YAML
        return str(path)

    def _batch(self, model: str, url: str) -> dict[str, Any]:
        packages = self.plans[0].task.packages
        return {
            "agent": {"step_limit": self.config.max_steps, "cost_limit": 0.0},
            "environment": environment(self.repositories, packages, timeout_s=self.config.command_timeout_s),
            "run": {"env_startup_command": "cp -a {{repo_dir}}/. ."},
            "model": {
                "model_name": f"openai/{model}",
                "cost_tracking": "ignore_errors",
                "model_kwargs": {
                    "api_base": f"{url}/v1",
                    "api_key": "none",
                    "drop_params": True,
                    "parallel_tool_calls": True,
                },
            },
        }

    def _concur(self) -> dict[str, Any]:
        """What a configuration file says of the arm."""
        return {"law": law_of(self.arm.name), "tick": self.tick_s, "logging": {"events": str(self._events)}}

    @property
    def _through_gateway(self) -> bool:
        return self.arm.name.partition(":")[0] == KIND

    @property
    def _events(self) -> Path:
        return self.folder.path.resolve() / "events.jsonl"

    def _environment(self) -> dict[str, str]:
        ours = {
            "HF_HOME": str(self.work / "huggingface"),
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "MSWEA_CONFIGURED": "true",
            "MSWEA_GLOBAL_CONFIG_DIR": str(self.work / "config"),
            "MSWEA_SILENT_STARTUP": "1",
            "NO_PROXY": "127.0.0.1",
            "PYTHONHASHSEED": "0",
            "TMPDIR": str(self.work / "tmp"),
        }
        # What would configure Concur, or the runner, from outside is not for a benchmark.
        strange = ("CONCUR_", "MSWEA_", "OPENAI_")
        return {name: value for name, value in os.environ.items() if not name.startswith(strange)} | ours

    @property
    def _log(self) -> Path:
        return self.folder.path / "runner.log"

    def _said(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f"{lines[-1] if lines else 'it printed nothing'} (see {self._log})"


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End the runner's whole process group; what runs in a sandbox ends with its parent."""
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
