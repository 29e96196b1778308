"""Calibration on an engine of known cost, and the fit that must find that cost."""

from random import Random

import pytest

from benchmarks.engines.emulated import emulated
from benchmarks.engines.engine import Engine
from benchmarks.engines.wire import EngineError
from benchmarks.real.calibrate import DecodePoint, Points, PrefillPoint, sweep
from benchmarks.real.fit import fit, least_squares
from concur_agents.emulator import CostModel


async def test_the_fit_finds_the_cost_of_the_engine_that_was_calibrated(engine, cost):
    points, said = Points(), []
    await sweep(engine, points, said.append)
    found = fit(points, engine.scheduling)
    assert found.prefill_error < 0.01
    assert found.decode_error < 0.01
    for name, value in found.cost.items():
        if name.startswith("prefill"):
            assert value == pytest.approx(getattr(cost, name), rel=0.05, abs=1e-9), name
    for sequences in (1, 5, 16, 30, 60):  # also between the sizes that were measured, and beyond
        for tokens in (sequences, 10_000):
            model = CostModel(**found.cost)
            assert model.decode_s(sequences, tokens) == pytest.approx(cost.decode_s(sequences, tokens), rel=0.02)
    assert found.scheduling["max_total_tokens"] == 16_000
    assert len(said) == len(points.prefill) + len(points.decode) + 1  # filling the pool is no point


async def test_another_sweep_measures_the_same_points_in_another_order(engine):
    points = Points(), Points()
    for seed, found in enumerate(points):
        await sweep(engine, found, lambda text: None, seed=seed)
    shapes = [[point.shapes for point in found.prefill] for found in points]
    assert shapes[0] != shapes[1]
    assert sorted(shapes[0]) == sorted(shapes[1])


async def test_a_sweep_leaves_an_empty_cache_behind(engine):
    await sweep(engine, Points(), lambda text: None)
    body = {"input_ids": [list(range(600, 700))], "sampling_params": {"max_new_tokens": 1}}
    assert (await engine.generate(body))[0]["meta_info"]["cached_tokens"] == 0


async def test_a_pool_too_small_for_the_grid_is_said_so(cost):
    async with emulated({"max_total_tokens": 4000, "context_length": 8192}, cost, speedup=2000.0) as engine:
        with pytest.raises(EngineError, match="4,000"):
            await sweep(engine, Points(), lambda text: None)


@pytest.mark.parametrize("answer", [None, {}, [{"text": "x"}], [{"meta_info": {"completion_tokens": 4}}]])
async def test_an_engine_that_does_not_tell_times_is_refused(answer, monkeypatch):
    async def reply(self, body):
        return answer

    async def flushed(self):
        return None

    monkeypatch.setattr(Engine, "generate", reply)
    monkeypatch.setattr(Engine, "flush", flushed)
    engine = Engine(url="http://x", name="x", model="x", scheduling={"max_total_tokens": 16_000})
    with pytest.raises(EngineError, match=r"/generate|tokens came"):
        await sweep(engine, Points(), lambda text: None)


def test_least_squares_finds_exact_coefficients_of_very_different_size():
    truth = (0.02, 5e-4, 6e-8)
    rows = [(1.0, n, n * (c + n / 2)) for n in (30, 300, 3000) for c in (0, 1000, 3000)]
    seconds = [sum(a * b for a, b in zip(row, truth, strict=True)) for row in rows]
    assert least_squares(rows, seconds) == pytest.approx(truth, rel=1e-6)


def test_no_coefficient_goes_below_zero():
    rows = [(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]
    assert least_squares(rows, [3.0, 2.0, 1.0])[1] == 0.0  # the plain solution would fall with the second column
    assert min(least_squares(rows, [1.0, 2.0, 4.0])) >= 0.0


def test_a_column_without_influence_gets_zero():
    assert least_squares([(1.0, 0.0), (2.0, 0.0)], [3.0, 6.0]) == pytest.approx((3.0, 0.0))


def test_fitted_times_add_up_to_the_measured_ones():
    rng = Random(1)
    rows = [(1.0, float(n)) for n in (10, 20, 50, 100, 500, 1000) for _ in range(20)]
    seconds = [(0.01 + n * 1e-3) * rng.choice((0.8, 1.0, 1.5)) for _, n in rows]
    base, each = least_squares(rows, seconds)
    assert sum(base + n * each for _, n in rows) == pytest.approx(sum(seconds), rel=1e-6)


@pytest.mark.parametrize(("rows", "seconds"), [([], []), ([(1.0, 1.0)], [1.0]), ([(1.0,), (1.0,)], [1.0, 0.0])])
def test_too_little_or_impossible_data_is_refused(rows, seconds):
    with pytest.raises(ValueError, match=r"points|positive"):
        least_squares(rows, seconds)


def test_a_batchs_size_may_cost_what_it_likes():
    kernels = {1: 0.01, 8: 0.03, 15: 0.05, 16: 0.02, 40: 0.03}  # as on a CPU: another kernel from 16 on
    decode = [
        DecodePoint(sequences=size, steps=10, tokens=10 * size * held, seconds=10 * (each + size * held * 1e-6))
        for size, each in kernels.items()
        for held in ((200, 600) if size == 8 else (200,))
    ]
    prefill = [PrefillPoint(shapes=((n, 0),), seconds=0.01 + n * 1e-3) for n in (100, 200, 400, 800, 900)]
    found = fit(Points(prefill, decode), {})
    assert found.decode_error < 1e-6
    model = CostModel(**found.cost)
    assert {size: round(model.decode_of_s(size), 6) for size in kernels} == kernels


def test_a_fit_compares_the_mean_of_each_point_of_the_grid_with_the_model():
    prefill = [PrefillPoint(shapes=((n, 0),), seconds=0.01 + n * 1e-3) for n in (100, 200, 400, 800, 800)]
    decode = [
        DecodePoint(sequences=b, steps=10, tokens=1000, seconds=0.1 * wrong) for b, wrong in ((1, 1), (2, 1), (4, 2))
    ]
    found = fit(Points(prefill, decode), {})
    assert found.prefill_error < 1e-6
    assert found.decode_error > 0.01
    assert len(found.points) == 7
    assert [point["times"] for point in found.points if point["new"] == 800] == [2]
