"""The same program in virtual time and against a server."""

import asyncio
import contextlib

import pytest

from benchmarks.lab.arms import parse_arms
from benchmarks.lab.batch import Batch, Plan, Step
from benchmarks.lab.real.client import ClientError, Reply
from benchmarks.lab.real.play import Clock, play
from benchmarks.lab.real.predict import predict
from benchmarks.lab.simulate import simulate
from concur_agents import TokenUsage


class Gate:
    """Lets everybody through, and counts ticks."""

    def __init__(self, on_tick=lambda: None) -> None:
        self.ticks = 0
        self._on_tick = on_tick

    @contextlib.asynccontextmanager
    async def agent(self, agent_id):
        yield self

    @contextlib.asynccontextmanager
    async def step(self):
        yield self

    def observe(self, usage):
        pass

    def tick(self):
        self.ticks += 1
        self._on_tick()

    def close(self):
        pass


class Client:
    """Answers at once with ids of its own, and remembers what it was asked."""

    def __init__(self, fails=()) -> None:
        self.asked: dict[str, list[int]] = {}
        self.updates: list[float] = []
        self._fails = fails

    async def generate(self, name, prompt, planned):
        if name in self._fails:
            raise ClientError("refused")
        self.asked[name] = list(prompt)
        return Reply(TokenUsage(prompt=len(prompt), cached=0, output=len(planned)), [7] * len(planned))

    async def update_weights(self, seconds):
        self.updates.append(seconds)

    async def close(self):
        pass


async def played(batch, client, gate=None, **more):
    return await play(batch, client, gate or Gate(), Clock(1000.0), seed=0, tick_s=1.0, **more)


@pytest.mark.parametrize("arm", ["uncontrolled", "fixed:2", "concur"])
def test_the_lab_says_the_same_by_its_own_program(arm, lab_engine, make_batch) -> None:
    batch = make_batch(agents=6)
    large = lab_engine.with_config(max_total_tokens=1_000_000)  # there it sets 4,096 tokens aside for each reply
    by_lab = simulate(batch, large, parse_arms(arm)[0])
    said = predict("swe", batch, large, parse_arms(arm)[0], seed=0, tick_s=1.0)
    assert said.makespan_s == pytest.approx(by_lab.makespan_s, rel=0.01)
    assert said.hit_rate == pytest.approx(by_lab.hit_rate, abs=0.01)
    assert (said.lost, said.repeat, said.kind) == (0, 1, "prediction")


def test_a_prediction_twice_is_the_same(lab_engine, make_batch) -> None:
    once, again = (
        predict("swe", make_batch(agents=30), lab_engine, parse_arms("concur")[0], seed=0, tick_s=1.0) for _ in range(2)
    )
    assert once == again


async def test_the_engines_own_reply_goes_into_the_next_prompt(make_batch) -> None:
    client = Client()
    result = await played(make_batch(agents=1), client)
    first, second = client.asked["a0/0"], client.asked["a0/1"]
    assert second[:100] == first
    assert second[100:110] == [7] * 10
    assert len(second) == 150
    assert result.agents[0].recomputed_tokens == 110 + 160  # nothing was cached


async def test_a_lost_agent_says_why_and_the_others_go_on(make_batch) -> None:
    result = await played(make_batch(agents=2), Client(fails={"a0/1"}))
    assert [agent.lost for agent in result.agents] == [True, False]
    assert result.errors == ("a0: refused",)


async def test_a_wave_waits_for_the_one_before_and_for_new_weights() -> None:
    steps = [Step(10, 1, 0.0)]
    client = Client()
    batch = Batch(([Plan("a", steps)], [Plan("b", steps)]), update_s=60.0)
    result = await played(batch, client)
    assert client.updates == [0.06]
    assert [agent.wave for agent in result.agents] == [0, 1]


async def test_the_engine_is_read_before_each_tick(make_batch) -> None:
    gate, read = Gate(), []

    async def before() -> None:
        read.append(gate.ticks)

    await played(make_batch(agents=1, tool_s=20.0), Client(), gate, before_tick=before)
    assert len(read) > 5
    assert read == list(range(len(read)))


async def test_a_tick_that_fails_ends_the_batch(make_batch) -> None:
    def broken() -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        await played(make_batch(tool_s=1e6), Client(), Gate(broken))


async def test_cancelling_ends_every_agent(make_batch) -> None:
    before = len(asyncio.all_tasks())
    run = asyncio.ensure_future(played(make_batch(tool_s=1e6), Client()))
    for _ in range(5):
        await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert len(asyncio.all_tasks()) == before
