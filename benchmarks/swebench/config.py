"""What one run is: every choice that changes its figures, checked where it is made."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter

from benchmarks.front.prompts import CHARACTERS
from benchmarks.swebench.sandbox import KINDS
from benchmarks.swebench.server import Server

__all__ = ["EMBEDDED", "LAUNCH", "RunConfig"]

EMBEDDED, LAUNCH = "embedded", "launch"
REPLIES = ("scripted", "model")
LENGTHS = ("short", "full")
FRAMEWORKS = {"langgraph": "LangGraph", "agentscope": "AgentScope"}
"""Those there are, by the name a run takes. Records from before there was a choice are LangGraph's."""
ALL_TASKS = "all"
LONG_TASKS = frozenset({"tomlkit__0.13.2", "voluptuous__0.15.1", "xmltodict__0.13.0"})
"""Left out unless asked for: their tests take 0.6 to 1.1 s of CPU (the others 0.1 to 0.5), or their fix is 1,400 to
5,000 tokens long, so that the makespan would be that of the last agent who writes it."""
MIN_TICK_S = 0.1
"""A poll takes 2 to 8 ms, much of it under our GIL, and must be answered within 0.8 ticks: by an emulator that shares
two cores with the agents' commands, that needs some 50 ms to spare."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """One run of the benchmark.

    Raises:
        ValueError: a field is out of range; the message names it and its value.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    agents: int = 32
    """Agents in the batch. At least 1."""
    arms: tuple[str, ...] = ("uncontrolled", "fixed:8", "budget")
    """Arms in the order they run; see ``arms.py``."""
    framework: str = "langgraph"
    """Whose agents they are: ``langgraph``, or ``agentscope`` of whichever line is installed."""
    engine: str = EMBEDDED
    """``embedded`` starts the emulator afresh for each arm; ``launch`` starts ``server``, anew for an arm that needs
    other flags; else the http(s) URL of a running engine."""
    server: Server | None = None
    """What ``launch`` starts."""
    seed: int = 0
    """Chooses tasks, their order and each agent's replies. The same in every arm and repeat."""
    repeats: int = 1
    """Times each arm runs, interleaved. At least 1."""
    tasks: tuple[str, ...] = ()
    """Only these task ids; empty takes all but :data:`LONG_TASKS`, ``("all",)`` all."""
    recordings: str = ""
    """A file or folder of recorded agents, played again in place of tasks; empty for tasks."""
    replies: str = "scripted"
    """``scripted``: a seeded solver's, played by the emulator, or said over the work of any other engine.
    ``model``: the model of the engine answers for itself."""
    lengths: str = "short"
    """Of scripted agents: ``short`` ends in minutes, ``full`` is as long as real runs (52 to 115 steps)."""
    preset: str = "laptop-8b"
    """Of the emulator: the embedded engine's cost model."""
    speedup: float = 10.0
    """Engine seconds in one wall second (embedded engine). Above 0; an engine elsewhere runs at 1."""
    pool_tokens: int = 44_000
    """KV pool of the embedded engine, in tokens. At least 1."""
    characters_per_token: int = 0
    """Of text, in a token that the engine gets of a *front* (``benchmarks/front``): for a model that says noise, with a
    script's words in its place. A multiple of 4, about what real tokenizers make; more make contexts shorter. 0 for no
    front: the engine reads the text itself."""
    sandbox: str = "bubblewrap"
    """Kind of place in which commands run: ``bubblewrap``, ``podman`` or ``docker``."""
    command_timeout_s: float = 60.0
    """Wall seconds until a command of an agent is killed. Above 0."""
    generation_timeout_s: float = 1800.0
    """Wall seconds until a request that was not answered ends its agent: waiting in the engine's queue included."""
    launch_rate: float = 0.0
    """Agents started a second; 0 starts all at once. At least 0."""
    max_output_tokens: int = 4096
    """Tokens of a reply, where the model decides: one that repeats itself would go on until its context is full. The
    longest of 13,964 real replies has 3,504. At least 1."""
    max_steps: int = 60
    """Generations after which an agent is stopped, and recorded as failed. At least 1."""

    def __post_init__(self) -> None:
        for name in ("agents", "repeats", "pool_tokens", "max_output_tokens", "max_steps"):
            value = getattr(self, name)
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        for name in ("speedup", "command_timeout_s", "generation_timeout_s"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise ValueError(f"{name} must be above 0, not {value}")
        if not 0 <= self.launch_rate < float("inf"):
            raise ValueError(f"launch_rate must be at least 0, not {self.launch_rate}")
        if self.characters_per_token:
            self._check_front()
        self._check_choices()

    def _check_front(self) -> None:
        if self.characters_per_token < CHARACTERS or self.characters_per_token % CHARACTERS:
            raise ValueError(
                f"characters_per_token must be a multiple of {CHARACTERS}, or 0, not {self.characters_per_token}"
            )
        if self.replies == "model":
            raise ValueError(
                f"characters_per_token {self.characters_per_token} and replies 'model': a front says a script's words"
            )

    def _check_choices(self) -> None:
        if not self.arms:
            raise ValueError("arms must name at least one arm")
        for name, choices in (
            ("framework", FRAMEWORKS),
            ("replies", REPLIES),
            ("lengths", LENGTHS),
            ("sandbox", KINDS),
        ):
            if (chosen := getattr(self, name)) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, not {chosen!r}")
        if self.engine not in (EMBEDDED, LAUNCH) and not self.engine.startswith(("http://", "https://")):
            raise ValueError(f"engine must be {EMBEDDED!r}, {LAUNCH!r} or an http(s) URL, not {self.engine!r}")
        if self.replies == "model":
            if self.engine == EMBEDDED:
                raise ValueError("replies 'model' need an engine that has one: name a URL, or 'launch'")
            if self.recordings:
                raise ValueError(f"replies 'model' and recordings {self.recordings!r}: leave out one of the two")
        if self.engine == LAUNCH:
            if self.server is None:
                raise ValueError(f"engine {LAUNCH!r} needs a server: name a --preset that has one, or a --model")
            if self.server.nodes > 1:
                raise ValueError(
                    f"a server on {self.server.nodes} machines cannot be started from here. Start it yourself, then "
                    "name its URL as the engine:\n" + "\n".join(f"  {line}" for line in self.server.commands())
                )

    @property
    def embedded(self) -> bool:
        """Whether the run starts its own engine."""
        return self.engine == EMBEDDED

    @property
    def clock_rate(self) -> float:
        """Engine seconds in one wall second."""
        return self.speedup if self.embedded else 1.0

    @property
    def tick_s(self) -> float:
        """The controller's tick in wall seconds: one engine second, so that the law sees what it would at speed 1."""
        return max(MIN_TICK_S, 1.0 / self.clock_rate)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; :meth:`from_json` reads it back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RunConfig:
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: unknown fields (a run of another version) or values out of range.
        """
        return _CONFIG.validate_json(json.dumps(data))


_CONFIG = TypeAdapter(RunConfig)
