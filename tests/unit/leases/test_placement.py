"""Which devices are free, and which of them is best."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.leases.rules.capacity import Surroundings, Weights, capacities
from andon.leases.rules.choice import rank
from andon.leases.rules.eligibility import score
from andon.leases.rules.verdict import available_by_readings
from andon.model.device import Device, DeviceStatus, Sample, State
from andon.units import GIB


def device(
    index: int,
    free: int | None = 60 * GIB,
    percent: int | None = 0,
    total: int | None = 80 * GIB,
    parent: str | None = None,
) -> DeviceStatus:
    return DeviceStatus(
        Device(f"GPU-{index}", index, "test", "x", parent=parent, memory_total_bytes=total),
        State.OK,
        since=0.0,
        sample=Sample(at=0.0, utilization_percent=percent, memory_free_bytes=free),
    )


def offered(statuses: list[DeviceStatus], **more: Any) -> list[int]:
    found = available_by_readings(statuses, **more)
    return [one.status.device.index for one in found]


def test_the_score_is_six_parts_memory_and_four_parts_idleness() -> None:
    assert score(80, 80, 0) == pytest.approx(1.0)
    assert score(0, 80, 100) == pytest.approx(0.0)
    assert score(40, 80, 25) == pytest.approx(0.6 * 0.5 + 0.4 * 0.75)


def test_the_weights_can_be_changed() -> None:
    assert score(40, 80, 100, memory_weight=1.0, utilization_weight=0.0) == pytest.approx(0.5)


@pytest.mark.parametrize("unknown", [(None, 80, 0), (40, None, 0), (40, 0, 0), (40, 80, None)])
def test_what_is_unknown_has_no_score(unknown: tuple[int | None, int | None, int | None]) -> None:
    assert score(*unknown) is None


@given(st.integers(0, 2**40), st.integers(1, 2**40), st.integers(0, 100))
def test_a_score_lies_between_0_and_1(free: int, more: int, percent: int) -> None:
    points = score(free, free + more, percent)
    assert points is not None
    assert 0 <= points <= 1


def test_the_best_comes_first_and_equals_by_index() -> None:
    statuses = [device(3), device(0, percent=40), device(1), device(2, free=79 * GIB)]
    assert offered(statuses) == [2, 1, 3, 0]


def test_weights_change_the_order() -> None:
    statuses = [device(0, free=70 * GIB, percent=50), device(1, free=50 * GIB, percent=0)]
    for weights, order in ((Weights(1, 0), [0, 1]), (Weights(0, 1), [1, 0])):
        found = capacities(statuses, Surroundings(), weights)
        assert [one.status.device.index for one in sorted(found, key=rank())] == order


def test_a_busy_device_is_left_out_and_the_threshold_itself_is_not() -> None:
    statuses = [device(0, percent=50), device(1, percent=51)]
    assert offered(statuses) == [0]
    assert offered(statuses, max_utilization=100) == [0, 1]


def test_what_is_asked_must_be_free() -> None:
    statuses = [device(0, free=20 * GIB), device(1, free=20 * GIB - 1)]
    assert offered(statuses, memory_bytes=20 * GIB) == [0]


@pytest.mark.parametrize(
    "status",
    [
        device(0, free=None),
        device(0, percent=None),
        replace(device(0), state=State.STALE),
        replace(device(0), state=State.LOST, sample=None),
        replace(device(0), visible=False),
    ],
)
def test_what_is_unknown_or_hidden_is_not_free(status: DeviceStatus) -> None:
    assert offered([status]) == []


def test_a_board_that_is_divided_is_not_offered_but_its_instances_are() -> None:
    statuses = [device(0), device(1, parent="GPU-0"), device(2)]
    assert offered(statuses) == [1, 2]


def test_one_that_sleeps_is_offered_last() -> None:
    asleep = replace(device(0), state=State.ASLEEP, sample=None)
    assert offered([asleep, device(1, percent=40)]) == [1, 0]
