"""A gate on a loop sees the last reading."""

import pytest

from benchmarks.lab.real.polled import PolledReader
from concur_agents import EngineReadError, EngineSample


class Scripted:
    def __init__(self, *outcomes) -> None:
        self._outcomes = iter(outcomes)

    def read(self, timeout):
        outcome = next(self._outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def close(self):
        pass


async def test_it_hands_out_what_the_last_poll_found_a_failure_too() -> None:
    sample = EngineSample(engine="sglang", pinned_usage=0.5)
    reader = PolledReader(Scripted(sample, EngineReadError("gone"), sample))
    with pytest.raises(EngineReadError, match="not read yet"):
        reader.read(1.0)
    await reader.poll(1.0)
    assert reader.read(1.0) is sample
    await reader.poll(1.0)
    with pytest.raises(EngineReadError, match="gone"):
        reader.read(1.0)
    await reader.poll(1.0)
    assert reader.read(1.0) is sample
    assert (reader.readings, reader.missed) == (3, 1)
