"""Windows of agents and of requests: who is within, and who loses its place."""

from dataclasses import replace

from benchmarks.lab.arms.peers.fireworks import Fireworks


def limit_of(scene, window):
    scene.gate.limit = replace(Fireworks(every=1e9), start=float(window))


async def test_an_agent_keeps_its_place_in_its_tool_and_gives_it_back_at_its_end(stage) -> None:
    scene = stage("fireworks:start=1", 1000, {"a": [10, 10], "b": [10]})
    await scene["a"].use(10)
    assert not await scene["b"].ask()
    await scene["a"].leave()
    assert scene["b"].generating


async def test_a_request_has_a_place_only_while_it_runs(stage) -> None:
    scene = stage("fireworks:requests,start=1", 1000, {"a": [10, 10], "b": [10], "c": [10]})
    assert await scene["a"].ask()
    assert not await scene["b"].ask()
    assert not await scene["c"].ask()
    await scene["a"].reply(10)
    assert not await scene["a"].ask()
    await scene["b"].reply(10)
    assert scene["c"].generating  # first in, first out: a has run, and waits behind c
    assert not scene["a"].generating


async def test_a_shrink_takes_the_youngest_at_once_in_a_tool_and_at_its_boundary_else(stage) -> None:
    scene = stage("fireworks:start=3", 1000, {"a": [10, 10], "b": [10, 10], "c": [10, 10], "new": [10]})
    for name in "abc":
        await scene[name].use(10)
    assert await scene["b"].ask()
    limit_of(scene, 1)
    scene.gate._settle()
    assert scene.named(scene.gate.within) == ["a", "b"]  # c was in its tool
    await scene["b"].reply(10)
    assert scene.named(scene.gate.within) == ["a"]
    assert not await scene["new"].ask()
    assert not await scene["c"].ask()
    await scene["a"].leave()
    assert scene["c"].generating  # those that have run go before new ones


async def test_a_window_that_grows_again_spares_who_was_to_lose_its_place(stage) -> None:
    scene = stage("fireworks:start=2", 1000, {"a": [10, 10], "b": [10, 10]})
    await scene["a"].use(10)
    assert await scene["b"].ask()
    limit_of(scene, 1)
    scene.gate._settle()
    assert scene.named(scene.gate.marked) == ["b"]
    limit_of(scene, 2)
    scene.gate._settle()
    await scene["b"].reply(10)
    assert scene.named(scene.gate.within) == ["a", "b"]


async def test_a_law_is_told_how_many_were_within_when_a_request_began(stage) -> None:
    scene = stage("netflix-aimd:start=4", 1000, {"a": [10, 10], "b": [10]})
    await scene["a"].use(10)
    assert scene.gate.limit.window == 4  # one of four
    await scene["b"].use(10)
    assert scene.gate.limit.window == 5  # two of four


async def test_a_request_given_up_as_it_is_granted_gives_its_place_to_the_next(stage) -> None:
    scene = stage("netflix-aimd:requests,start=1,most=1", 1000, {"a": [10], "b": [10], "c": [10]})
    for name in "abc":
        await scene[name].ask()
    scene["b"].asking.cancel()  # its task has not run yet when a's reply comes
    await scene["a"].reply(10)
    assert scene["c"].generating
