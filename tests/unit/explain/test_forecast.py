"""A trend is told where the data bears one, and only there."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.explain.evidence.forecast import (
    FOR_ALERTS,
    FOR_EXPLANATIONS,
    Point,
    Trend,
    arrival,
    trend,
)

MINUTES = 30
STEP = 10.0
COUNT = int(MINUTES * 60 / STEP)
LEAST = 5.0  # of a hundred
SEEDS = st.integers(0, 2**32)


def points(values: list[float]) -> list[Point]:
    return [(1000.0 + STEP * place, value) for place, value in enumerate(values)]


def noisy(values: list[float], amount: float, seed: int) -> list[Point]:
    draw = random.Random(seed)
    return points([value + draw.uniform(-amount, amount) for value in values])


def line(slope: float, start: float = 50.0, count: int = COUNT) -> list[float]:
    return [start + slope * STEP * place for place in range(count)]


@given(st.floats(0.005, 0.05), st.floats(0, 0.3), SEEDS)
def test_a_steady_rise_is_found_with_its_slope_between_the_bounds(
    slope: float, amount: float, seed: int
) -> None:
    found = trend(noisy(line(slope), amount, seed), LEAST)
    assert found is not None
    assert 0 < found.low <= found.slope <= found.high
    assert abs(found.slope - slope) < 0.1 * slope + 0.001
    # Uniform noise: the bounds are meant to miss the truth once in a hundred times.
    assert found.low - 0.0005 <= slope <= found.high + 0.0005


@given(st.floats(0, 50), SEEDS)
def test_noise_around_one_value_is_no_trend(amount: float, seed: int) -> None:
    assert trend(noisy([50.0] * COUNT, amount, seed), LEAST) is None


@given(st.integers(1, COUNT - 1), st.floats(1, 90), st.floats(0, 1), SEEDS)
def test_one_step_is_no_trend(place: int, height: float, amount: float, seed: int) -> None:
    values = [0.0] * place + [height] * (COUNT - place)
    assert trend(noisy(values, amount, seed), LEAST) is None


@given(st.integers(1, COUNT // 2), st.floats(1, 90), st.integers(0, 200), st.booleans())
def test_work_that_takes_and_frees_again_is_no_trend(
    period: int, height: float, phase: int, in_steps: bool
) -> None:
    """A sawtooth of training, from every tick to half of the time that is looked at."""
    shares = [((place + phase) % period) / period for place in range(COUNT)]
    values = [height * (share > 0.5 if in_steps else share) for share in shares]
    assert trend(points(values), LEAST) is None


@given(st.integers(2, 60), st.floats(5, 90))
def test_a_start_that_levels_off_is_no_trend(settle: int, height: float) -> None:
    """A model that is loaded, or a body that warms towards a balance."""
    values = [height * (1 - 0.5 ** (place / settle)) for place in range(COUNT)]
    assert trend(points(values), LEAST) is None


@given(SEEDS, st.floats(0.1, 5))
def test_a_fall_is_no_rise(seed: int, amount: float) -> None:
    assert trend(noisy(line(-0.02, 100), amount, seed), LEAST) is None


@pytest.mark.slow
def test_a_walk_without_a_direction_is_almost_never_a_trend() -> None:
    """A random walk rises and falls for long: of ten thousand, a handful look like a leak."""
    found = 0
    for seed in range(10_000):
        draw, value, values = random.Random(seed), 50.0, []
        for _ in range(COUNT):
            value += draw.gauss(0, 1)
            values.append(value)
        found += trend(points(values), LEAST) is not None
    assert found <= 20


@given(st.lists(st.floats(-1e12, 1e12), max_size=60), st.floats(0, 1e6))
def test_any_data_gives_an_answer(values: list[float], least: float) -> None:
    for demand in (FOR_ALERTS, FOR_EXPLANATIONS):
        found = trend(points(values), least, demand)
        assert found is None or found.low > 0


def test_ten_minutes_are_asked_for() -> None:
    assert trend(points(line(0.03, count=60)), LEAST) is None
    assert trend(points(line(0.03, count=62)), LEAST) is not None


def test_a_few_odd_answers_do_not_move_it() -> None:
    values = line(0.02)
    values[40], values[90] = values[40] + 3, values[90] + 3
    found = trend(points(values), LEAST)
    assert found is not None
    assert abs(found.slope - 0.02) < 0.0005


def test_a_rise_less_than_what_matters_is_none() -> None:
    assert trend(points(line(0.002)), LEAST) is None


def test_the_arrival_has_an_earliest_and_a_latest_time() -> None:
    when = arrival(Trend(2.0, 1.6, 2.5, 100, 600), 100)
    assert when is not None
    assert (when.earliest_seconds, when.seconds, when.latest_seconds) == (40, 50, 62.5)


def test_an_arrival_that_could_be_any_time_is_not_told() -> None:
    assert arrival(Trend(2.0, 0.5, 4.0, 100, 600), 100) is None


def test_what_is_reached_already_is_reached_now() -> None:
    when = arrival(Trend(2.0, 1.6, 2.5, 100, 600), -5)
    assert when is not None
    assert when.seconds == 0
