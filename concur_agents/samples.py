"""The frozen values that pass between the layers, with the unit of every field.

Unknown is ``None`` and never 0: a law that meets ``None`` holds. Usages are shares in 0..1, tokens are counts,
times are seconds on the controller's monotonic clock.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

__all__ = [
    "NO_GROWTH",
    "AgentState",
    "AgentView",
    "EngineSample",
    "Growth",
    "Outcome",
    "Population",
    "Reason",
    "Stats",
    "WindowChange",
]

_EMPTIED = 0.1  # share of the pool: less may go with one long request that was aborted


class Outcome(enum.StrEnum):
    """How an agent ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AgentState(enum.StrEnum):
    """Where an agent is in its life (see the lifecycle in ``README.md`` beside this file)."""

    WAITING = "waiting"
    """New, and queued for its first seat."""
    GENERATING = "generating"
    """Seated, a generation is running."""
    IN_TOOL = "in_tool"
    """Seated and paused: at a boundary, its prefix is kept hot."""
    PARKED = "parked"
    """Has run, has no seat, and is not asking for one (it is in a tool, or a person thinks)."""
    RETURNING = "returning"
    """Parked, and queued for a seat."""


class Reason(enum.StrEnum):
    """Why the window is what it is."""

    START = "start"
    """The window the controller began with."""
    GROW = "grow"
    """The law saw room."""
    CUT = "cut"
    """The law saw congestion."""
    FIXED = "fixed"
    """The law does not depend on samples."""
    FOLLOW = "follow"
    """The token budget keeps to what agents hold; the law saw neither room nor congestion."""
    CLAMPED = "clamped"
    """A bound changed what the law wanted."""
    HOLD = "hold"
    """The law saw neither."""
    UNKNOWN = "unknown"
    """The sample lacks what the law needs: hold."""
    UNSATURATED = "unsaturated"
    """The law wanted to grow, but nobody waits for a seat: hold."""
    UNSETTLED = "unsettled"
    """The last cut has not taken effect at every boundary yet: hold."""
    STALE = "stale"
    """Nothing new from the engine for longer than ``stale_after``: the fallback window."""
    LAW_FAILED = "law_failed"
    """The law raised or returned nonsense: the fallback window."""
    RECOVERED = "recovered"
    """Readings are back: the window from before the fallback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSample:
    """One reading of one engine. A plain reading has counters; :meth:`since` adds what needs two of them."""

    engine: str | None = None
    """Which naming was recognised: ``"sglang"``, ``"vllm"`` or ``"tensorrt_llm"``."""
    role: str | None = None
    """``"prefill"`` or ``"decode"`` of a disaggregated engine, ``"unified"`` when the engine says so."""
    pinned_usage: float | None = None
    """Share of the KV pool held by running requests, of the hottest rank (SGLang's ``token_usage``). 0..1."""
    occupied_usage: float | None = None
    """The same plus evictable cache, of the hottest rank. 0..1."""
    rank_usages: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Pinned usage of each data-parallel rank, keyed by its label (``"0"`` where the engine has no label)."""
    running: int | None = None
    """Requests in the running batch, summed over ranks."""
    queued: int | None = None
    """Requests waiting inside the engine, summed over ranks."""
    capacity_tokens: int | None = None
    """KV pool size in tokens, summed over ranks."""
    retractions_total: float | None = None
    """Running requests thrown out for want of memory since the engine started (vLLM: preemptions)."""
    hit_tokens_total: float | None = None
    """Prompt tokens found in the prefix cache since the engine started."""
    query_tokens_total: float | None = None
    """Prompt tokens looked up in the prefix cache since the engine started."""
    hit_counter: str | None = None
    """Name of the counter family the two totals came from: deltas are only taken within one family."""
    hit_rate_gauge: float | None = None
    """The engine's own gauge, 0..1. For display only: it covers one prefill batch and probes reset it."""

    hit_rate: float | None = None
    """Share of prompt tokens looked up since the previous sample that were cached. 0..1; only from :meth:`since`."""
    retractions: float | None = None
    """Retractions since the previous sample; only from :meth:`since`."""
    computed: float | None = None
    """Prompt tokens that were computed, not found, since the previous sample; only from :meth:`since`."""
    elapsed_s: float | None = None
    """Seconds since the previous sample; only from :meth:`since`."""
    restarted: bool = False
    """Since the previous sample a counter went down, so that the engine is a new one, or its cache was emptied, as with
    new weights: contexts are not expected in it."""

    def since(self, previous: EngineSample | None, elapsed_s: float | None = None) -> EngineSample:
        """This sample with what needs two of them, from the deltas to ``previous``, ``elapsed_s`` seconds ago.

        A delta is unknown when either end is, when the counter family changed, when nothing was looked up, and
        after a restart (any counter that went down): the new reading is then only a baseline.
        """
        if previous is None:
            return self
        pairs = [(self.retractions_total, previous.retractions_total)]
        if self.hit_counter == previous.hit_counter:
            pairs += [
                (self.hit_tokens_total, previous.hit_tokens_total),
                (self.query_tokens_total, previous.query_tokens_total),
            ]
        if any(now is not None and before is not None and now < before for now, before in pairs):
            return replace(self, hit_rate=None, retractions=None, computed=None, elapsed_s=None, restarted=True)
        retractions, *rest = (_delta(now, before) for now, before in pairs)
        hits, queries = rest or (None, None)
        # A cache makes room for what comes in, and nothing else empties it: half of it is not gone within a tick.
        now_used, used = self.occupied_usage, previous.occupied_usage
        emptied = now_used is not None and used is not None and now_used < used / 2 and used - now_used > _EMPTIED
        return replace(
            self,
            hit_rate=min(1.0, hits / queries) if hits is not None and queries else None,
            computed=max(0.0, queries - hits) if hits is not None and queries is not None else None,
            elapsed_s=elapsed_s,
            retractions=retractions,
            restarted=emptied,
        )

    def same_reading(self, other: EngineSample | None) -> bool:
        """Whether ``other`` says nothing this sample does not: the engine has not updated in between."""
        return other is not None and _reading(self) == _reading(other)


def _delta(now: float | None, before: float | None) -> float | None:
    return None if now is None or before is None else now - before


def _reading(sample: EngineSample) -> EngineSample:
    return replace(sample, hit_rate=None, retractions=None, computed=None, elapsed_s=None, restarted=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Room to keep for what seated agents are going to grow by. Tokens."""

    seated: float = 0.0
    """For those seated at the last sample, together."""
    each: float = 0.0
    """For each agent seated since."""
    step: float = 0.0
    """For what those who generate grow by in a step: so long it takes until one that is to be parked has left."""


NO_GROWTH: Final = Growth()
"""Keep room for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The agents as a law sees them. Counts are of seats: a family of sub-agents shares one and counts once."""

    window: float
    """The window in force, in agents; ``inf`` when uncontrolled."""
    tokens: float = math.inf
    """The token budget in force; ``inf`` when agents alone are counted."""
    held: float = 0.0
    """Tokens that the seated agents hold, as far as they are known, the shared prefix left out."""
    seated: int = 0
    """Agents that hold a seat: ``generating + in_tool``."""
    generating: int = 0
    in_tool: int = 0
    parked: int = 0
    """Without a seat and not asking for one."""
    waiting: int = 0
    """Queued for a seat: new ones and returning ones."""
    mean_context: float | None = None
    """Tokens an agent holds in context after its last observed step, on average over those that had one."""
    measured: bool | None = None
    """Whether replies say how long contexts are; None while no step has ended."""
    first_context: float | None = None
    """Tokens an agent holds after its first step, on average over the last of them."""
    growth: float | None = None
    """Tokens that a context grows by in a step, on average over the last steps."""
    generated: float | None = None
    """Tokens that a step generates, on average likewise; None where replies do not say."""
    cycle_s: float | None = None
    """Seconds from the end of one step to the end of the next of an agent that keeps its seat, on average likewise."""
    shared_prefix: float = 0.0
    """Tokens that new agents find cached of others' prompts."""
    reuse: float | None = None
    """Of the tokens returning agents had in context, the share the engine still had, since the last sample. 0..1.

    Counts an agent only if it kept its seat since its last step and no cut or restart came in between: so it shows
    eviction under the window in force, not what parking cost. Unknown while nobody has come back.
    """
    computed: float | None = None
    """Prompt tokens that were not cached, of the steps that ended since the last sample; None where replies do not say
    what was cached."""
    output: float | None = None
    """Tokens generated in the same steps."""
    elapsed_s: float | None = None
    """Seconds since the last sample; None before the first."""
    reports_reuse: bool = False
    """Whether replies have reported cached tokens at all: if so, an unknown reuse means nobody came back."""
    cold_share: float | None = None
    """Of the steps begun since the last sample, the share bound to miss (first of an agent, or after parking). 0..1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowChange:
    """One change of the window, with what it was decided on."""

    at: float
    """Seconds on the controller's clock."""
    before: float
    after: float
    """Agents; ``inf`` when uncontrolled."""
    reason: Reason
    sample: EngineSample | None = None
    population: Population | None = None
    tokens: float = math.inf
    """The token budget from then on; ``inf`` when agents alone are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """One agent, as ``Controller.agents()`` shows it."""

    agent_id: str
    parent: str | None
    state: AgentState
    steps: int
    """Generations begun."""
    context_tokens: int | None
    """Tokens in context after its last observed step."""
    waited_s: float
    """Seconds spent queued for a seat so far, over its whole life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What ``Controller.stats()`` returns: one consistent moment."""

    at: float
    window: float
    """Agents; ``inf`` when uncontrolled."""
    reason: Reason
    """Why the window is that, as of the last tick."""
    population: Population
    known: int
    """Agents that have begun and not finished, sub-agents included."""
    finished: Mapping[Outcome, int]
    sample: EngineSample | None
    """The last reading that said something new."""
    sample_age_s: float | None
    """Seconds since then; None before the first."""
    problem: str | None
    """What Concur is doing without at the moment (engine unreachable, law failing); None when well."""
    prompt_tokens: int
    """Observed over all steps so far."""
    cached_tokens: int | None
    """Observed; None until a reply reported any."""
    output_tokens: int
    recomputed_tokens: int | None
    """Tokens that were in an agent's context before a step and were not cached any more; None as above."""
