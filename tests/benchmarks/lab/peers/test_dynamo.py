"""Dynamo's numbers, case by case.

Worked by hand from ai-dynamo 1.6.1, ``dynamo/thunderagent_router/router.py``: pause when ``used > 0.95 C`` down to
``0.80 C``, resume up to ``int(0.85 C)``, each program ``+ 100``.
"""

import pytest


async def busy(stage, tokens, capacity):
    scene = stage("dynamo", 1_000_000, {name: [1, held, held] for name, held in tokens.items()})
    for name, held in tokens.items():
        await scene[name].use(1, held - 1)
    scene.gate.capacity = capacity
    return scene


@pytest.mark.parametrize(("capacity", "enters"), [(1099, False), (1100, True)])
async def test_a_first_request_is_measured_in_tokens_against_the_whole_pool(stage, capacity, enters) -> None:
    scene = stage("dynamo", capacity, {"a": [1000]})
    assert await scene["a"].ask() is enters


@pytest.mark.parametrize(
    ("capacity", "paused"),
    [
        (10_000, []),  # 9,500 are used: not above 95%
        (9_999, ["a"]),  # above; 9,500 - 2,000 <= 0.80 x 9,999
        (9_000, ["a", "b"]),  # 9,500 - 2,000 = 7,500 > 7,200, so one more
    ],
)
async def test_above_95_percent_the_smallest_are_paused_down_to_80(stage, capacity, paused) -> None:
    scene = await busy(stage, {"a": 1900, "b": 3400, "c": 3900}, capacity)
    assert scene.gate.used() == 9_500
    await scene.tick(5)
    assert scene.named(scene.gate.paused) == paused


async def test_pausing_that_does_not_reach_80_percent_marks_all_that_generate(stage) -> None:
    scene = await busy(stage, {"a": 1900, "b": 3400, "c": 3900}, 9_500)
    await scene["b"].ask()
    await scene["c"].ask()
    scene.gate.capacity = 9_000
    await scene.tick(5)  # without a: 7,500 > 7,200
    assert scene.named(scene.gate.paused) == ["a"]
    assert sorted(scene.named(scene.gate.marked)) == ["b", "c"]


@pytest.mark.parametrize(("capacity", "goes"), [(10_000, True), (9_999, False)])
async def test_resumes_up_to_85_percent(stage, capacity, goes) -> None:
    scene = await busy(stage, {"a": 3900, "b": 4400}, 1_000_000)  # 4,000 + 4,500 = 0.85 x 10,000
    scene.gate._pause(next(iter(scene.gate.active)))
    scene.gate.capacity = capacity
    assert not await scene["a"].ask()
    await scene.tick(5)
    assert scene["a"].generating is goes
