"""llm-d's decisions, case by case.

Worked by hand from ``pkg/epp/framework/plugins/thunderagent`` of the llm-d-router branch with leases (1a98a6c):
``room = util C - working set``; a paused or new session goes if ``min(size, util C) <= room + what sessions idle past
the lease hold``.
"""

import pytest


@pytest.mark.parametrize(("capacity", "enters"), [(2999, False), (3000, True)])
async def test_a_new_agent_goes_if_it_fits_beside_all_that_others_hold(stage, capacity, enters) -> None:
    scene = stage("llm-d", capacity, {"a": [1], "b": [1000]})
    await scene["a"].use(1, 1999)
    assert await scene["b"].ask() is enters


async def test_an_admitted_agent_always_goes_and_may_overfill(stage) -> None:
    scene = stage("llm-d", 1000, {"a": [500, 5000]})
    await scene["a"].use(500)
    assert await scene["a"].ask()
    assert scene.gate.occupied == 5000


async def test_an_agent_larger_than_the_pool_goes_when_it_is_alone(stage) -> None:
    scene = stage("llm-d", 1000, {"a": [5000]})
    assert await scene["a"].ask()


async def test_room_is_taken_from_the_longest_idle_and_not_before_the_lease(stage) -> None:
    scene = stage("llm-d", 3000, {"a": [1000] * 2, "b": [1000] * 2, "c": [1000], "d": [1500]})
    for name in "abc":
        await scene[name].use(1000)
        scene.clock.advance(1.0)
    assert not await scene["d"].ask()
    await scene.tick(26)  # a has been idle for 29 s
    assert not scene["d"].generating
    await scene.tick(1)  # a for 30, b for 29: 1,000 are not enough
    assert not scene["d"].generating
    await scene.tick(1)
    assert scene["d"].generating
    assert sorted(scene.named(scene.gate.paused)) == ["a", "b"]
    assert scene.gate.occupied == 2500


async def test_a_paused_agent_goes_before_a_smaller_new_one(stage) -> None:
    scene = stage("llm-d", 2000, {"a": [1000, 1000], "b": [2000], "new": [500]})
    await scene["a"].use(1000)
    await scene.tick(30)
    assert await scene["b"].ask()
    assert not await scene["new"].ask()
    assert not await scene["a"].ask()
    await scene["b"].reply(1000)
    assert scene["a"].generating
    assert not scene["new"].generating


async def test_a_request_that_waited_too_long_goes_although_it_does_not_fit(stage) -> None:
    scene = stage("llm-d:starve-s=60,ends=1", 1000, {"a": [900], "b": [900]})
    assert await scene["a"].ask()
    assert not await scene["b"].ask()
    await scene.tick(59)
    assert not scene["b"].generating
    await scene.tick()
    assert scene["b"].generating


@pytest.mark.parametrize(("arm", "goes"), [("llm-d", False), ("llm-d:ends=1", True)])
async def test_an_end_frees_room_only_if_the_plugin_is_told(stage, arm, goes) -> None:
    scene = stage(arm, 1000, {"a": [900], "b": [900]})
    await scene["a"].use(900)
    assert not await scene["b"].ask()
    await scene["a"].leave()
    assert scene["b"].generating is goes
    await scene.tick(30)
    assert scene["b"].generating  # the lease is over
    assert scene.gate.occupied == 900
    assert not scene.gate._gone


async def test_an_agent_that_is_idle_for_an_hour_is_forgotten(stage) -> None:
    scene = stage("llm-d", 1000, {"a": [900, 900]})
    await scene["a"].use(900)
    await scene.tick(3600)
    assert (scene.gate.occupied, scene.gate.admitted) == (0, {})
    assert await scene["a"].ask()


async def test_what_an_admitted_agent_grows_by_is_taken_from_who_is_idle(stage) -> None:
    scene = stage("llm-d", 2000, {"a": [1000], "b": [1000, 1500]})
    await scene["a"].use(1000)
    await scene["b"].use(1000)
    await scene.tick(30)
    assert await scene["b"].ask()
    assert scene.named(scene.gate.paused) == ["a"]
    assert scene.gate.occupied == 1500
