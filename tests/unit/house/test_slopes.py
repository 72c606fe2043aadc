"""What `bench.soak` calls growth: a line through samples that noise and outliers do not explain."""

import math

import pytest
from bench.slopes import Point, settled, trend
from hypothesis import given
from hypothesis import strategies as st

SAMPLES = 120


def line(slope: float, noise: float = 0.0, begin: float = 100.0) -> list[Point]:
    """A value that rises by so much over all samples, and waves."""
    return [
        (n, begin + slope * n / (SAMPLES - 1) + noise * math.sin(7.3 * n)) for n in range(SAMPLES)
    ]


@given(st.floats(-1e6, 1e6), st.floats(0, 1e9))
def test_a_line_is_found_as_it_is(slope: float, begin: float) -> None:
    found = trend(line(slope, begin=begin))
    assert found is not None
    assert found.growth == pytest.approx(slope, rel=1e-3, abs=1e-2)
    assert found.begin == pytest.approx(begin, rel=1e-6, abs=1e-2)
    assert found.noise == pytest.approx(0.0, abs=1e-2)


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=SAMPLES // 4))
def test_a_quarter_of_the_samples_may_be_anything(outliers: list[float]) -> None:
    points = line(30.0, noise=1.0)
    for place, value in enumerate(outliers):
        points[place * 4] = (points[place * 4][0], value)
    found = trend(points)
    assert found is not None
    assert 15 < found.growth < 45


@pytest.mark.parametrize(
    ("growth", "noise", "floor", "grows"),
    [
        (50.0, 1.0, 0.0, True),
        (50.0, 1.0, 60.0, False),  # below what counts
        (0.0, 50.0, 0.0, False),
        (-50.0, 1.0, 0.0, False),  # what shrinks is no leak
        (20.0, 50.0, 0.0, False),  # noise explains it
        (1.0, 0.0, 0.0, True),
    ],
)
def test_growth_above_the_floor_and_the_noise(
    growth: float, noise: float, floor: float, grows: bool
) -> None:
    found = trend(line(growth, noise))
    assert found is not None
    assert found.grows(floor) is grows


def test_a_step_in_the_middle_is_growth() -> None:
    found = trend([(n, 10.0 if n < SAMPLES / 2 else 40.0) for n in range(SAMPLES)])
    assert found is not None
    assert found.grows(1.0)


def test_two_moments_have_no_noise_and_no_trend() -> None:
    assert trend([]) is None
    assert trend([(1.0, 1.0), (2.0, 2.0), (2.0, 3.0)]) is None


def test_the_warm_up_is_left_out() -> None:
    points = line(1.0)
    assert settled(points, 0.4) == points[48:]
    assert settled([], 0.4) == []
