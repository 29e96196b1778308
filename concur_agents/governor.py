"""What stands between readings and the window: freshness, settling, saturation, fallback. No clock, no I/O.

A law says what it wants; the governor decides when it is asked and whether its answer is taken:

* once per fresh sample; a reading that equals the last one, or none, says nothing new, and then the law is asked what
  it does knowing only the agents;
* growth only while somebody waits for a seat, else the window runs away from what was tested;
* no second cut before the first has reached every boundary;
* only samples the law calls unknown for ``stale_after`` seconds while agents generate, or a law that raises: the
  fallback window, until readings are back; then on from the window before.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace

from concur_agents.laws import Decision, Law
from concur_agents.samples import EngineSample, Population, Reason, WindowChange
from concur_agents.scatter import ScatterWatch

__all__ = ["Governor"]

_NOTHING = EngineSample()
_UNLIMITED = math.inf, 0.0, math.inf


class Governor:
    """Runs one law over one engine's readings.

    Args:
        law: decides the window.
        stale_after: seconds without news before the fallback. > 0.
        fallback: window then, in agents; ``inf`` opens up.
        now: seconds on the caller's clock.
        history: how many window changes to remember.
    """

    def __init__(self, law: Law, *, stale_after: float, fallback: float, now: float, history: int) -> None:
        self._law = law
        self._stale_after = stale_after
        self._fallback = fallback
        self._last: EngineSample | None = None
        self._news_at = now
        self._chosen = _checked(law.initial)
        """The law's own window, kept through a fallback."""
        self._falling_back = False
        self.decided = False
        """Whether the law could decide on the last population it was shown."""
        self.window = self._chosen
        self._budget = _UNLIMITED
        """Tokens, look-ahead and patience that the law chose, kept through a fallback."""
        self.tokens, self.ahead, self.patience_s = self._budget
        self.reason = Reason.START
        self.problem: str | None = None
        self.sample: EngineSample | None = None
        self.sample_at: float | None = None
        self.history: deque[WindowChange] = deque(maxlen=history)
        self._scatter = ScatterWatch()
        self._record(self.window, self.window, Reason.START, now, None, None)

    def read(self, reading: EngineSample, population: Population, over: int, now: float) -> bool:
        """Take one reading. True when the engine restarted since the last one, so that its cache is empty.

        Args:
            reading: as the engine said it.
            population: the agents at this moment; its window is not looked at.
            over: seats still held above the window.
            now: seconds on the caller's clock.
        """
        if not self._falling_back:
            self.problem = self._scatter.problem  # the engine answers
        if reading.same_reading(self._last):
            if not population.generating:
                self._news_at = now  # an idle engine has nothing new to say, and is not stale for it
            self._go_on_without("the engine's metrics have not changed", population, over, now)
            if not self._falling_back:
                self.problem = self._scatter.problem
            return False
        sample = self.sample = reading.since(self._last, None if self.sample_at is None else now - self.sample_at)
        self._last, self.sample_at = reading, now
        shown, population = self._scatter.see(sample, population)
        decision = self._ask(shown, population)
        if isinstance(decision, Exception):
            self._law_failed(decision, now)
            return sample.restarted
        if decision.reason is Reason.UNKNOWN:
            self.reason = Reason.UNKNOWN if not self._falling_back else self.reason
            self._check_stale("the engine's metrics lack what the law needs", now)
            return sample.restarted
        self.problem = self._scatter.problem
        self._take(decision, population, over, now, sample)
        return sample.restarted

    def missed(self, problem: str, population: Population, over: int, now: float) -> bool:
        """No reading could be taken; ``problem`` says why. Returns False: nothing is known of a restart."""
        self.problem = problem
        self._go_on_without(problem, population, over, now)
        return False

    def failed(self, problem: str, now: float) -> None:
        """Something of Concur's own failed: open up to the fallback until the next good decision."""
        self.problem = problem
        self._fall_back(Reason.LAW_FAILED, now)

    def _law_failed(self, error: Exception, now: float) -> None:
        self.failed(f"law {type(self._law).__name__} failed: {type(error).__name__}: {error}", now)

    def _ask(self, sample: EngineSample, population: Population) -> Decision | Exception:
        self.decided = False
        try:
            decision = self._law.decide(sample, replace(population, window=self._chosen))
            _checked(decision.window)
            _check_budget(decision)
        except Exception as error:  # noqa: BLE001 - a user's law may raise anything, and must not stop the batch
            return error
        self._law = decision.law or self._law
        self.decided = decision.reason is not Reason.UNKNOWN
        return decision

    def _go_on_without(self, problem: str, population: Population, over: int, now: float) -> None:
        """Nothing new from the engine: a law that needs no reading goes on by what it knows of the agents."""
        law, stale = self._law, now - self._news_at > self._stale_after
        nothing, population = self._scatter.see(None, population)
        decision = self._ask(nothing, population)
        if isinstance(decision, Exception):
            if stale:  # until then it may as well need a reading, and not know how to say so
                self._law_failed(decision, now)
        elif decision.reason is Reason.UNKNOWN:
            self._law = law  # these agents will be seen again, with the next reading
            self._check_stale(problem, now)
        else:
            self._take(decision, population, over, now, None)

    def _take(
        self, decision: Decision, population: Population, over: int, now: float, sample: EngineSample | None
    ) -> None:
        """Do what the law decided, unless there is an objection."""
        self._news_at = now
        if self._falling_back:
            # What was seen is the fallback's doing; only the next decision tells of the window from before it.
            self._falling_back, reason = False, Reason.RECOVERED
        elif (objection := self._objection(decision, population, over)) is not None:
            reason = objection
        else:
            self._chosen, reason = _checked(decision.window), decision.reason
            self._budget = decision.tokens, decision.ahead, decision.patience_s
        self.tokens, self.ahead, self.patience_s = self._budget
        self._move(self._chosen, reason, now, sample, population)

    def _objection(self, decision: Decision, population: Population, over: int) -> Reason | None:
        """Why the decision is not taken. By its direction: a wrapper may have given it another reason."""
        if decision.reason is Reason.FIXED or math.isfinite(decision.tokens):
            return None
        if not population.waiting and (decision.reason is Reason.GROW or decision.window > self._chosen):
            return Reason.UNSATURATED
        if over and (decision.reason is Reason.CUT or decision.window < self._chosen):
            return Reason.UNSETTLED
        return None

    def _check_stale(self, problem: str, now: float) -> None:
        if now - self._news_at > self._stale_after and not self._falling_back:
            self.problem = f"{problem} for {self._stale_after:g} s"
            self._fall_back(Reason.STALE, now)

    def _fall_back(self, reason: Reason, now: float) -> None:
        self._falling_back = True
        self.tokens, self.ahead, self.patience_s = _UNLIMITED
        self._move(self._fallback, reason, now, None, None)

    def _move(
        self, window: float, reason: Reason, now: float, sample: EngineSample | None, population: Population | None
    ) -> None:
        before, self.window, self.reason = self.window, window, reason
        # A budget follows what is known of the agents from sample to sample; told is only what the law did to it.
        if window != before or (reason in (Reason.CUT, Reason.GROW) and math.isfinite(self.tokens)):
            self._record(before, window, reason, now, sample, population)

    def _record(
        self,
        before: float,
        after: float,
        reason: Reason,
        now: float,
        sample: EngineSample | None,
        population: Population | None,
    ) -> None:
        self.history.append(
            WindowChange(
                at=now,
                before=before,
                after=after,
                reason=reason,
                sample=sample,
                population=population,
                tokens=self.tokens,
            )
        )


def _checked(window: float) -> float:
    """The window as admission will have it: at least 1.

    Raises:
        ValueError: it is not a number.
    """
    if math.isnan(number := float(window)):
        raise ValueError(f"window must be a number of agents, got {window!r}")
    return max(1.0, number)


def _check_budget(decision: Decision) -> None:
    """Raise ValueError unless tokens, look-ahead and patience are numbers that admission can keep to."""
    if math.isnan(decision.tokens):
        raise ValueError(f"tokens must be a number of tokens, got {decision.tokens!r}")
    if not 0 <= decision.ahead < math.inf:
        raise ValueError(f"ahead must be a finite number of tokens of at least 0, got {decision.ahead!r}")
    if not decision.patience_s >= 0:
        raise ValueError(f"patience_s must be a number of seconds of at least 0, got {decision.patience_s!r}")
