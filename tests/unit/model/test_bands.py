"""Bands and means: 0 % is a reading, and no data is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.cli.show.render import mean_utilization
from andon.model.device import Device, DeviceStatus, Sample, State
from andon.model.utilisation import Band, band
from tests.support.rows import rows


def device(
    index: int, percent: int | None, state: State = State.OK, parent: str | None = None
) -> DeviceStatus:
    return DeviceStatus(
        Device(uuid=f"GPU-{index}", index=index, vendor="test", name="x", parent=parent),
        state,
        since=0.0,
        sample=Sample(at=0.0, utilization_percent=percent),
    )


@rows(
    ("percent", "word"),
    [
        (0, Band.IDLE), (0.1, Band.LIGHT), (1, Band.LIGHT), (25, Band.LIGHT), (25.1, Band.MODERATE),
        (26, Band.MODERATE), (75, Band.MODERATE), (76, Band.HEAVY), (100, Band.HEAVY),
        (None, None), (float("nan"), None),
    ],
)  # fmt: skip
def test_a_utilisation_has_one_word(percent: float | None, word: Band | None) -> None:
    assert band(percent) is word


def test_the_mean_of_80_and_40_is_60() -> None:
    assert mean_utilization([device(0, 80), device(1, 40)]) == 60


@pytest.mark.parametrize(
    "failed", [device(1, 3, State.STALE), device(1, 3, State.LOST), device(1, None)]
)
def test_a_device_that_failed_does_not_pull_the_mean_down(failed: DeviceStatus) -> None:
    assert mean_utilization([device(0, 90), failed, device(2, 60)]) == 75


def test_an_idle_device_counts() -> None:
    assert mean_utilization([device(0, 90), device(1, 0)]) == 45


def test_nobody_answered_is_no_data() -> None:
    assert mean_utilization([]) is None
    assert mean_utilization([device(0, None), device(1, 50, State.LOST)]) is None


def test_a_board_with_instances_counts_once() -> None:
    board, *parts = device(0, 50), device(1, 90, parent="GPU-0"), device(2, 80, parent="GPU-0")
    assert mean_utilization([board, *parts, device(3, 100)]) == 75


def test_instances_speak_for_a_board_that_cannot_say() -> None:
    board, *parts = device(0, None), device(1, 90, parent="GPU-0"), device(2, 70, parent="GPU-0")
    assert mean_utilization([*parts, board, device(3, 0)]) == 40


@given(st.lists(st.none() | st.integers(0, 100)))
def test_the_mean_lies_between_the_readings(percents: list[int | None]) -> None:
    known = [p for p in percents if p is not None]
    mean = mean_utilization(device(i, p) for i, p in enumerate(percents))
    assert (mean is None) == (not known)
    if mean is not None:
        assert min(known) <= mean <= max(known)
