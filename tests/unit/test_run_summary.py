"""What a run used: only its devices, exact where it can be, bounded however long it takes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.core.runs.summary import ExactSpread, RunTallies
from andon.model.device import DeviceStatus, Snapshot, State
from andon.units import GIB
from tests.support.sharing_parts import gpu


def at(moment: float, *statuses: DeviceStatus) -> Snapshot:
    return Snapshot("n", moment, devices=statuses)


def test_only_the_runs_devices_are_counted() -> None:
    tallies = RunTallies(frozenset({"GPU-1"}))
    counted = tallies.add(at(1.0, gpu(0), gpu(1)))
    assert [s.device.uuid for s in counted] == ["GPU-1"]
    assert list(tallies.result()) == ["GPU-1"]


def test_the_summary_has_extremes_mean_idle_share_peak_and_energy() -> None:
    tallies = RunTallies(frozenset({"GPU-0"}))
    for moment, busy, used, watts in (
        (0.0, 0, 1, 100.0),
        (1.0, 50, 9, 300.0),
        (2.0, 100, 5, 300.0),
    ):
        tallies.add(at(moment, gpu(0, used_gib=used, busy=busy, power_watts=watts)))
    found = tallies.result()["GPU-0"]
    assert found["samples"] == 3
    assert found["utilization_percent"] == {"min": 0, "max": 100, "mean": 50.0, "p95": 100.0}
    assert found["idle_share"] == pytest.approx(1 / 3, abs=1e-4)
    assert found["peak_memory_bytes"] == 9 * GIB
    assert found["energy_joules"] == 200.0 + 300.0


def test_what_was_not_read_is_unknown_and_not_zero() -> None:
    tallies = RunTallies(frozenset({"GPU-0"}))
    tallies.add(at(0.0, gpu(0, busy=None)))
    tallies.add(at(1.0, gpu(0, state=State.LOST)))
    found = tallies.result()["GPU-0"]
    assert found["samples"] == 1
    assert found["idle_share"] is None
    assert found["energy_joules"] is None
    assert found["utilization_percent"]["mean"] is None


def test_no_energy_is_made_up_for_a_gap() -> None:
    tallies = RunTallies(frozenset({"GPU-0"}))
    for moment in (0.0, 1.0, 1001.0, 1002.0):
        tallies.add(at(moment, gpu(0, power_watts=100.0)))
    assert tallies.result()["GPU-0"]["energy_joules"] == 200.0


def test_the_last_answer_is_kept_for_the_end() -> None:
    tallies = RunTallies(frozenset({"GPU-0"}))
    tallies.add(at(0.0, gpu(0, used_gib=70)))
    tallies.add(at(1.0, replace(gpu(0), state=State.STALE)))
    sample = tallies.latest["GPU-0"].sample
    assert sample is not None
    assert sample.memory_used_bytes == 70 * GIB


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=200))
def test_the_percentile_lies_between_mean_free_extremes(values: list[float]) -> None:
    spread = ExactSpread()
    for value in values:
        spread.add(value)
    found = spread.result()["p95"]
    assert found is not None
    exact = sorted(values)[-(-95 * len(values) // 100) - 1]
    assert min(values) <= found <= max(values)
    assert found == pytest.approx(exact, rel=0.006, abs=1e-9)
