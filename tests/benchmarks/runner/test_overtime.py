"""The picture shows what was sampled, and gaps where nothing was known."""

from functools import partial

import pytest

from benchmarks.swebench.report.overtime import draw_over_time, in_bands, rolling_hit_rate
from benchmarks.swebench.report.theme import DARK, LIGHT, as_png, as_svg, darkened
from benchmarks.swebench.summary import summarise


def test_hit_rate_is_of_the_last_span_only(make_point):
    totals = [(0, 0), (0, 100), (100, 200), (200, 300)]
    points = [make_point(float(at), hit_tokens=hits, query_tokens=asked) for at, (hits, asked) in enumerate(totals)]
    assert rolling_hit_rate(points, 1.0) == [(1.0, 0.0), (2.0, 1.0), (3.0, 1.0)]


def test_points_without_counters_have_no_hit_rate(make_point):
    points = [make_point(0.0), make_point(1.0, hit_tokens=1, query_tokens=2), make_point(2.0)]
    assert rolling_hit_rate(points, 1.0) == []


def test_an_engine_that_restarted_gives_no_hit_rate_across_it(make_point):
    points = [make_point(0.0, hit_tokens=90, query_tokens=100), make_point(1.0, hit_tokens=1, query_tokens=5)]
    assert rolling_hit_rate(points, 1.0) == []


@pytest.mark.parametrize("bands", [[1], [3], [3, 2]])
def test_any_number_of_arms_is_drawn_three_at_a_time(make_run, make_record, make_point, bands):
    points = [make_point(0.0), make_point(1.0, pinned_usage=0.4, occupied_usage=0.9, window=4.0)]
    names = ["uncontrolled", "fixed:8", "concur", "fixed:4", "budget"][: sum(bands)]
    folder = make_run({(name, 1): ([make_record()], points, {}) for name in names})
    summary = summarise(folder)
    found = in_bands(folder, summary)
    assert [len(band) for band in found] == bands
    assert [name for band in found for name in band] == names
    for band in found:
        draw = partial(draw_over_time, folder, summary, band)
        assert as_png(draw).startswith(b"\x89PNG")
        light = as_svg(draw)
        assert all(f">{name}<".encode() in light for name in band)
        assert LIGHT.window.encode() in light
        assert LIGHT.window.encode() not in darkened(light)
        assert DARK.window.encode() in darkened(light)


def test_an_interrupted_arm_with_one_unknown_sample_is_drawn(make_run, make_point):
    folder = make_run({("concur", 1): ([], [make_point(0.0)], None)})
    assert as_png(partial(draw_over_time, folder, summarise(folder), ["concur"]))


def test_no_sample_no_picture(make_run):
    folder = make_run({("concur", 1): ([], [], None)})
    assert in_bands(folder, summarise(folder)) == []
