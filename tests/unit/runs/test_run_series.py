"""A run in at most 500 points, whatever its length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.model.run.record import SERIES_POINTS
from andon.runs.rules.course import RunCurves
from andon.runs.rules.summary import RunTallies
from tests.support.run_parts import BEGAN, device, sample


@pytest.mark.slow
def test_a_long_run_is_coarse_and_whole() -> None:
    tallies = RunTallies([device()], BEGAN)
    for second in range(24 * 720):  # a day, every five seconds
        tallies.add(sample(5.0 * second, {"utilization_percent": 100 * (second < 24 * 360)}))
    found = tallies.series()
    assert found is not None
    points = found.devices["GPU-0"]["utilization_percent"]
    assert SERIES_POINTS / 2 <= len(found.at) <= SERIES_POINTS
    assert (points[0], points[-1]) == (100, 0)
    assert found.at[-1] > 0.99 * 24 * 3600
    assert list(found.devices["GPU-0"]) == ["utilization_percent"], (
        "what was never known is left out"
    )


def test_a_short_run_keeps_its_samples() -> None:
    tallies = RunTallies([device()], BEGAN)
    for second, watts in ((0.1, 90.0), (1.1, 300.0), (1.9, 310.5)):
        tallies.add(sample(second, {"power_watts": watts}))
    found = tallies.series()
    assert found is not None
    assert found.devices["GPU-0"]["power_watts"] == (90.0, 300.0, 310.5)


def test_a_gap_is_left_out_and_an_unknown_value_is_none() -> None:
    tallies = RunTallies([device()], BEGAN)
    tallies.add(sample(0.0, {"power_watts": 90.0, "temperature_celsius": 40}))
    tallies.add(sample(100.0, {"temperature_celsius": 41}))
    found = tallies.series()
    assert found is not None
    assert found.at == (0.0, 100.0)
    assert found.devices["GPU-0"] == {
        "power_watts": (90.0, None), "temperature_celsius": (40, 41),
    }  # fmt: skip


def test_nothing_sampled_is_no_series() -> None:
    assert RunTallies([device()], BEGAN).series() is None


@given(st.lists(st.floats(0, 1e7), min_size=1, max_size=100))
def test_every_line_has_as_many_points_as_there_are_times(moments: list[float]) -> None:
    curves = RunCurves(0.0, points=8)
    for moment in sorted(moments):
        curves.at(moment)
        curves.add("GPU-0", "power_watts", 5.0)
        if moment > 10:
            curves.add("GPU-1", "power_watts", 7.0)
    found = curves.result()
    assert found is not None
    assert len(found.at) <= 8
    assert list(found.at) == sorted(set(found.at))
    for named in found.devices.values():
        for points in named.values():
            assert len(points) == len(found.at)
            assert set(points) <= {None, 5.0, 7.0}
