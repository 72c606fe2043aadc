"""What a run used: exact, in constant memory, and without what was not known."""

import json
from itertools import chain
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.model.device import State
from andon.runs.rules.tallies import RunTally, Summary
from andon.testing.mock import MockGpuBackend
from andon.units import GIB

UNKNOWN = {"min": None, "max": None, "mean": None}


def test_a_summary_has_exactly_this_shape() -> None:
    summary = Summary()
    for percent, watts in ((20, 100.0), (60, 300.0)):
        node = MockGpuBackend().with_device(0, "NVIDIA H200").with_utilization(percent)
        node.with_memory(20 * GIB, 80 * GIB).with_temperature(50).with_power(watts, 700)
        summary.add(node.snapshot())
    assert summary.result(2.5) == {
        "monitoring_duration_seconds": 2.5,
        "sample_count": 2,
        "gpu_stats": {
            "0": {
                "name": "NVIDIA H200",
                "utilization": {"min": 20, "max": 60, "mean": 40.0, "samples": 2},
                "memory_used_mb": {"min": 20480.0, "max": 20480.0, "mean": 20480.0},
                "memory_usage_percent": {"min": 25.0, "max": 25.0, "mean": 25.0},
                "temperature_c": {"min": 50, "max": 50, "mean": 50.0},
                "power_draw_w": {"min": 100.0, "max": 300.0, "mean": 200.0},
            }
        },
        "faults": [],
    }


def test_a_reading_that_was_never_known_is_none_and_not_zero() -> None:
    summary = Summary()
    summary.add(MockGpuBackend().with_device(1, "x").with_temperature(40).snapshot())
    stats = summary.result(1.0)["gpu_stats"]["1"]
    assert stats["utilization"] == {**UNKNOWN, "samples": 0}
    assert stats["power_draw_w"] == stats["memory_used_mb"] == UNKNOWN
    assert stats["temperature_c"]["mean"] == 40


def test_a_device_that_did_not_answer_adds_nothing() -> None:
    summary = Summary()
    summary.add(MockGpuBackend().with_device(0, "x").with_utilization(80).snapshot())
    summary.add(MockGpuBackend().with_device(0, "x").with_utilization(0).lost().snapshot())
    summary.add(MockGpuBackend().with_device(0, "x").with_fault().snapshot())
    stuck = MockGpuBackend().with_device(0, "x").with_utilization(5).snapshot()
    old = replace(stuck.devices[0], state=State.STALE)  # it still shows its last sample
    summary.add(replace(stuck, devices=(old,)))
    result = summary.result(4.0)
    assert result["sample_count"] == 4
    assert [(one["source"], one["code"]) for one in result["faults"]] == [
        ("GPU 0", State.STALE),
        ("mock", ""),
    ], "each once, as it was last"
    assert result["gpu_stats"]["0"]["utilization"] == {
        "min": 80,
        "max": 80,
        "mean": 80,
        "samples": 1,
    }


def test_every_partition_is_measured_beside_its_board() -> None:
    node = MockGpuBackend().with_device(6, "NVIDIA H200").with_temperature(50)
    node.with_device(7, "MIG 1g.18gb", parent=6).with_utilization(20)
    node.with_device(8, "MIG 1g.18gb", parent=6).with_utilization(60)
    summary = Summary()
    summary.add(node.snapshot())
    stats = summary.result(1.0)["gpu_stats"]
    assert {label: one["utilization"]["mean"] for label, one in stats.items()} == {
        "6": None, "6:0": 20, "6:1": 60,
    }  # fmt: skip


def test_nothing_measured_is_an_empty_summary() -> None:
    empty = {"monitoring_duration_seconds": 0.0, "sample_count": 0, "gpu_stats": {}, "faults": []}
    assert Summary().result(0.0) == empty


def test_asking_for_the_result_does_not_end_the_summary() -> None:
    summary, node = Summary(), MockGpuBackend().with_device(0, "x").with_utilization(10)
    summary.add(node.snapshot())
    before = summary.result(1.0)
    summary.add(node.with_utilization(30).snapshot())
    assert before["sample_count"] == 1
    assert summary.result(2.0)["gpu_stats"]["0"]["utilization"]["mean"] == 20


def test_two_summaries_do_not_disturb_each_other() -> None:
    node = MockGpuBackend().with_device(0, "x").with_utilization(10)
    long, short = Summary(), Summary()
    long.add(node.snapshot())
    short.add(node.with_utilization(90).snapshot())
    assert long.result(1.0)["gpu_stats"]["0"]["utilization"]["max"] == 10
    assert short.result(1.0)["gpu_stats"]["0"]["utilization"]["min"] == 90


def test_the_summary_is_json_with_devices_in_order() -> None:
    node = MockGpuBackend()
    for index in (2, 10, 0):
        node.with_device(index, "x").with_utilization(index)
    summary = Summary()
    summary.add(node.snapshot())
    assert list(json.loads(json.dumps(summary.result(1.0)))["gpu_stats"]) == ["0", "2", "10"]


@given(st.lists(st.none() | st.floats(-1e9, 1e9) | st.just(float("nan"))))
def test_a_tally_agrees_with_the_whole_list(values: list[float | None]) -> None:
    tally = RunTally()
    for value in values:
        tally.add(value)
    known = [v for v in values if v is not None and v == v]
    assert tally.count == len(known)
    if not known:
        assert tally.spread() == UNKNOWN
        return
    assert (tally.min, tally.max) == (min(known), max(known))
    assert tally.mean == pytest.approx(fmean(known), abs=1e-3)
    assert tally.min is not None
    assert tally.mean is not None
    assert tally.max is not None
    assert tally.min <= tally.mean <= tally.max


def test_the_mean_of_equal_values_is_that_value() -> None:
    tally = RunTally()
    for _ in range(3):
        tally.add(0.1)  # the sum of three is a little more than 0.3
    assert tally.spread() == {"min": 0.1, "max": 0.1, "mean": 0.1}


def test_a_tally_does_not_grow_with_what_it_counts() -> None:
    tally = RunTally()
    for value in chain.from_iterable([range(1000)] * 3):
        tally.add(value)
    assert not hasattr(tally, "__dict__")
    assert (tally.count, tally.min, tally.max, tally.mean) == (3000, 0, 999, 499.5)
