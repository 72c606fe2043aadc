"""What a run used: only its devices, weighted with time, bounded however long it takes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.model.run.use import SPREADS
from andon.runs.rules.course import MemoryLevels, TimedSpread
from andon.runs.rules.summary import RunTallies
from andon.units import GIB
from tests.support.run_parts import BEGAN, device, sample


def tallied(*lines: tuple[float, dict[str, Any]], **more: Any) -> dict[str, Any]:
    tallies = RunTallies([device(**more)], BEGAN)
    for seconds, readings in lines:
        tallies.add(sample(seconds, readings))
    return tallies.summary()["GPU-0"]


def test_only_the_runs_devices_are_counted() -> None:
    tallies = RunTallies([device(1)], BEGAN)
    tallies.add(sample(1.0, {"utilization_percent": 90}, {"utilization_percent": 10}))
    found = tallies.summary()
    assert list(found) == ["GPU-1"]
    assert found["GPU-1"]["utilization_percent"]["mean"] == 10


def test_the_summary_has_extremes_mean_idle_share_peak_and_energy() -> None:
    found = tallied(
        (1.0, {"utilization_percent": 0, "memory_used_bytes": GIB, "power_watts": 100.0}),
        (2.0, {"utilization_percent": 50, "memory_used_bytes": 9 * GIB, "power_watts": 300.0}),
        (3.0, {"utilization_percent": 100, "memory_used_bytes": 5 * GIB, "power_watts": 300.0}),
    )
    assert found["samples"] == 3
    assert found["utilization_percent"] == {"min": 0, "max": 100, "mean": 50, "p95": 100}
    assert found["idle_share"] == pytest.approx(1 / 3, abs=1e-4)
    assert found["peak_memory_bytes"] == 9 * GIB
    assert found["memory_percent"]["max"] == 11.25
    assert (found["energy_joules"], found["energy_source"]) == (100.0 + 200.0 + 300.0, "power")


def test_a_reading_stands_for_the_time_since_the_last_one() -> None:
    """A run that is sampled every second for its first ten minutes, and then every five."""
    early = [(float(t), {"utilization_percent": 100}) for t in range(1, 11)]
    late = [(10.0 + 5 * t, {"utilization_percent": 0}) for t in range(1, 7)]
    found = tallied(*early, *late)
    assert found["utilization_percent"]["mean"] == 25.0, "10 of 40 seconds"
    assert found["idle_share"] == 0.75


def test_what_was_not_read_is_unknown_and_not_zero() -> None:
    found = tallied((0.0, {"utilization_percent": None}), (1.0, {"state": "lost"}), (2.0, {}))
    assert found["samples"] == 2
    unknown = dict.fromkeys(("min", "max", "mean", "p95"))
    assert [found[name] for name in SPREADS] == [unknown] * len(SPREADS)
    for name in ("idle_share", "idle_spells", "throttle_share", "memory_plateau",
                 "energy_joules", "energy_source", "peak_memory_bytes"):  # fmt: skip
        assert found[name] is None, name


def test_throttling_has_a_share_by_cause_and_idleness_is_none() -> None:
    found = tallied(
        (1.0, {"throttle": ["gpu_idle"]}),
        (2.0, {"throttle": ["sw_power_cap", "sw_thermal_slowdown"]}),
        (3.0, {"throttle": ["sw_power_cap"]}),
        (4.0, {"throttle": ["applications_clocks_setting"]}),
        (5.0, {"throttle": None}),
    )
    assert found["throttle_share"] == 0.5
    assert found["throttle_by_cause"] == {
        "sw_power_cap": 0.5, "sw_thermal_slowdown": 0.25, "applications_clocks_setting": 0.25,
    }  # fmt: skip


def test_idle_spells_come_from_the_driver_where_it_has_them() -> None:
    tallies = RunTallies([device()], BEGAN)
    tallies.add(sample(1.0, {"utilization_percent": 50}))
    # Busy and idle by turns, faster than the samples can tell.
    ring = [(BEGAN - 1 + 0.2 * n, 100.0 * (n % 4 == 0)) for n in range(1, 21)]
    tallies.devices["GPU-0"].add_ring(ring[:15])
    tallies.devices["GPU-0"].add_ring(ring)  # the driver tells some of it again
    found = tallies.summary()["GPU-0"]
    assert found["idle_spells"] == {
        "count": 4, "mean_seconds": pytest.approx(0.6, abs=0.1),
        "longest_seconds": pytest.approx(0.6, abs=0.01), "source": "driver",
    }  # fmt: skip
    assert found["idle_share"] == pytest.approx(0.75, abs=0.05)


def test_readings_that_the_ring_has_lost_are_not_taken_for_a_spell() -> None:
    tallies = RunTallies([device()], BEGAN)
    tallies.devices["GPU-0"].add_ring([(BEGAN + 0.2, 0.0), (BEGAN + 60.0, 0.0)])
    spells = tallies.summary(BEGAN + 60.0)["GPU-0"]["idle_spells"]
    assert (spells["count"], spells["longest_seconds"]) == (2, pytest.approx(0.2))


def test_an_idle_spell_is_never_longer_than_its_run() -> None:
    """The last readings are of a moment after the command, and one after a gap stands for 1 s."""
    tallies = RunTallies([device()], BEGAN)
    tallies.add(sample(0.4, {"utilization_percent": 0}))
    tallies.devices["GPU-0"].add_ring([(BEGAN + 0.2 * n, 0.0) for n in range(1, 4)])
    spells = tallies.summary(lasted_seconds=0.05)["GPU-0"]["idle_spells"]
    assert (spells["mean_seconds"], spells["longest_seconds"]) == (0.05, 0.05)
    late = RunTallies([device()], BEGAN)
    late.add(sample(40.0, {"utilization_percent": 0}))
    assert late.summary(lasted_seconds=0.3)["GPU-0"]["idle_spells"]["longest_seconds"] == 0.3


def test_memory_that_was_held_for_most_of_the_time_is_a_plateau() -> None:
    held = [(float(t), {"memory_used_bytes": 40 * GIB + t * 1000}) for t in range(3, 10)]
    found = tallied((1.0, {"memory_used_bytes": 0}), (2.0, {"memory_used_bytes": 9 * GIB}), *held)
    plateau = found["memory_plateau"]
    assert plateau["bytes"] == pytest.approx(40 * GIB, rel=0.01)
    assert (plateau["share"], plateau["since_seconds"]) == (pytest.approx(7 / 9, abs=1e-3), 3.0)


def test_memory_that_never_rests_has_no_plateau() -> None:
    levels = MemoryLevels(100 * GIB, 0.0)
    for second in range(50):
        levels.add(float(second), second * 2 * GIB, 1.0)
    assert levels.result() is None
    assert MemoryLevels(None, 0.0).result() is None


def test_the_last_answer_is_kept_for_the_end() -> None:
    tallies = RunTallies([device()], BEGAN)
    tallies.add(sample(0.0, {"memory_used_bytes": 70 * GIB}))
    tallies.add(sample(1.0, {"state": "stale"}))
    assert tallies.latest["GPU-0"]["memory_used_bytes"] == 70 * GIB


def test_the_node_has_its_processors() -> None:
    tallies = RunTallies([device()], BEGAN)
    assert tallies.node() == {}
    for second, percent in enumerate((100.0, 98.0, 96.0)):
        tallies.add(sample(second + 1.0, {}, cpu_percent=percent))
    assert tallies.node()["cpu_percent"]["mean"] == 98.0


@given(st.lists(st.tuples(st.floats(0, 1e12), st.floats(0, 30)), min_size=1, max_size=200))
def test_every_value_lies_between_the_extremes(values: list[tuple[float, float]]) -> None:
    spread = TimedSpread()
    for value, seconds in values:
        spread.add(value, seconds)
    low, high = min(v for v, _ in values), max(v for v, _ in values)
    assert (spread.low, spread.high) == (low, high)
    for found in (spread.mean, spread.percentile(0.95), spread.percentile(0.0)):
        assert found is not None
        assert low <= found <= high


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=200))
def test_the_percentile_of_equal_times_is_that_of_the_list(values: list[float]) -> None:
    spread = TimedSpread()
    for value in values:
        spread.add(value, 1.0)
    exact = sorted(values)[-(-95 * len(values) // 100) - 1]
    assert spread.percentile(0.95) == pytest.approx(exact, rel=0.006, abs=1e-9)


def test_a_spread_does_not_grow_with_the_run() -> None:
    spread = TimedSpread()
    for second in range(50_000):
        spread.add(100 + second % 1000 / 7, 1.0)
    assert len(spread.weights) < 1500
