"""The energy of a run: to its end, by the counter, and by power where there is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.model.run.energy import EnergyMeter


@pytest.mark.parametrize("seconds", [0.05, 0.9, 1.9, 2.9, 5.0, 700.0])
def test_nothing_is_lost_at_either_end(seconds: float) -> None:
    """V5: 500 W all the time; a run of 1.9 s lost a third."""
    meter = EnergyMeter(began=100.0)
    at = 100.01
    while at < 100 + seconds:
        meter.add(at, 500.0, 7000 + 500 * at)
        at += 1.0
    meter.add(100 + seconds, 500.0, 7000 + 500 * (100 + seconds))
    source = "counter" if seconds > 1 else "power"
    found = meter.until(100 + seconds)
    assert found is not None
    assert found[0] == pytest.approx(500 * seconds, rel=0.001)
    assert found[1] == source


def test_where_the_counter_is_read_seldom_its_difference_counts() -> None:
    meter = EnergyMeter(0.0)
    meter.add(0.0, 100.0, 5000.0)
    for second in range(1, 60):
        meter.add(float(second), 100.0, None)  # a one-second average misses the peaks
    meter.add(60.0, 100.0, 5000.0 + 60 * 130.0)
    assert meter.until(60.0) == (60 * 130.0, "counter")
    meter.add(61.0, 100.0, None)
    assert meter.until(62.0) == (60 * 130.0 + 200.0, "counter"), "since then by power"


def test_without_a_counter_power_is_added_up_and_said() -> None:
    meter = EnergyMeter(0.0)
    meter.add(0.5, 100.0, None)
    meter.add(1.5, 300.0, None)
    assert meter.until(2.0) == (50.0 + 200.0 + 150.0, "power")


def test_a_counter_that_starts_again_does_not_take_energy_back() -> None:
    meter = EnergyMeter(0.0)
    meter.add(0.0, 100.0, 9000.0)
    meter.add(1.0, 100.0, 9100.0)
    meter.add(2.0, 100.0, 3.0)  # the driver was loaded again
    meter.add(3.0, 100.0, 103.0)
    assert meter.until(3.0) == (300.0, "counter")


def test_no_energy_is_made_up_for_a_gap() -> None:
    meter = EnergyMeter(0.0)
    for moment in (0.0, 1.0, 1001.0, 1002.0):
        meter.add(moment, 100.0, None)
    assert meter.until(1002.0) == (200.0, "power")


def test_what_was_read_before_the_run_is_not_of_it() -> None:
    meter = EnergyMeter(10.0)
    meter.add(4.0, 100.0, None)
    meter.add(11.0, 100.0, None)
    assert meter.until(11.0) == (100.0, "power")


def test_nothing_read_is_nothing_known() -> None:
    meter = EnergyMeter(0.0)
    meter.add(1.0, None, None)
    assert meter.until(5.0) is None


@pytest.mark.parametrize(
    ("readings", "end"),
    [
        ([(40.0, 100.0, None)], 40.0),  # the first is too late to say anything of the time before
        ([(40.0, 100.0, 7.0)], 80.0),
        ([(1.0, None, 7.0)], 5.0),  # a counter that was read once
        ([(0.0, 100.0, None)], 50.0),
    ],
)
def test_energy_that_no_reading_covers_is_unknown_and_not_zero(
    readings: list[tuple[float, float | None, float | None]], end: float
) -> None:
    meter = EnergyMeter(0.0)
    for at, watts, joules in readings:
        meter.add(at, watts, joules)
    assert meter.until(end) is None


@given(st.lists(st.tuples(st.floats(0.01, 20), st.none() | st.floats(0, 1000)), max_size=30))
def test_energy_never_falls(steps: list[tuple[float, float | None]]) -> None:
    meter, at, before = EnergyMeter(0.0), 0.0, 0.0
    for seconds, watts in steps:
        at += seconds
        meter.add(at, watts, None)
        now = (meter.until(at) or (0.0, ""))[0]
        assert now >= before - 1e-6
        before = now


def read_by_a_card(
    watts: float, lasted: float, before: float, after: float, updates: float = 0.1
) -> EnergyMeter:
    """The meter of a run on a card that updates its counter every so often, and is read at the
    begin, every second, and somewhat after the end."""

    def counter(at: float) -> float:
        return watts * (at // updates) * updates

    meter = EnergyMeter(100.0)
    meter.add(100.0 - before, watts, counter(100.0 - before))
    for second in range(1, int(lasted) + 1):
        meter.add(100.0 + second, watts, None if second % 60 else counter(100.0 + second))
    end = 100.0 + lasted + after
    meter.add(end, watts, counter(end))
    return meter


@given(
    st.floats(10, 1500), st.floats(0, 4000), st.floats(0, 0.9), st.floats(0, 0.9),
    st.floats(0.001, 0.1),
)  # fmt: skip
def test_the_energy_of_a_run_of_any_length_is_its_power_times_its_time(
    watts: float, lasted: float, before: float, after: float, updates: float
) -> None:
    """A3: 7 ms gave 13 J on a card at 100 W, 0.11 s under load 306 J."""
    meter = read_by_a_card(watts, lasted, before, after, updates)
    found = meter.until(100.0 + lasted)
    if found is None:
        assert lasted < 1e-9, "nothing was read of it"
        return
    assert abs(found[0] - watts * lasted) <= 0.11 * watts * lasted + 1e-6
    if lasted < 1.0:
        assert found[1] == "power", "an estimate, and marked as one"


def test_a_counter_that_was_read_twice_within_a_second_counts_only_with_power() -> None:
    meter = EnergyMeter(0.0)
    meter.add(0.0, None, 5000.0)
    meter.add(0.13, None, 5013.0)
    assert meter.until(0.007) is None


READINGS = st.tuples(st.floats(0, 40), st.none() | st.floats(0, 1e3), st.none() | st.floats(0, 1e6))


@given(st.lists(READINGS, max_size=20), st.floats(-5, 5))
def test_no_readings_give_less_than_nothing(
    readings: list[tuple[float, float | None, float | None]], late: float
) -> None:
    meter, at = EnergyMeter(0.0), 0.0
    for seconds, watts, joules in readings:
        at += seconds
        meter.add(at, watts, joules)
    found = meter.until(at + late)
    assert found is None or found[0] >= 0
