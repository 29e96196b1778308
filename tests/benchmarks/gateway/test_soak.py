"""A soak's slope is that of the time in which as many agents end as arrive."""

from __future__ import annotations

import pytest

from benchmarks.gateway.soak import Sample, SoakSettings, growth


def samples(*values):
    return [
        Sample(at_s=float(at), rss_kib=rss, files=files, agents=500, arrived=1000 * at)
        for at, (rss, files) in enumerate(values)
    ]


def test_growth_is_first_last_and_slope():
    grown = growth(samples((50_000, 30), (50_100, 31), (50_200, 30)))
    assert (grown.first.rss_kib, grown.last.rss_kib) == (50_000, 50_200)
    assert grown.kib_per_1000_agents == pytest.approx(100)
    assert grown.files_per_1000_agents == pytest.approx(0)


@pytest.mark.parametrize("seen", [samples(), samples((50_000, 30)), 2 * samples((50_000, 30))])
def test_too_few_samples_have_no_slope(seen):
    assert growth(seen) is None


def test_an_hour_is_as_many_agents_however_fast_it_goes():
    for speedup in (1, 20):
        settings = SoakSettings(minutes=60, speedup=speedup, agents_per_minute=334)
        assert settings.agents == 20_040
        assert settings.idle_after_s == 900 / speedup
