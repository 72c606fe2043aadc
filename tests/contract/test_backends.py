"""What every backend must keep: NVIDIA's (over the stand-in), the simulation and the mock."""

from collections.abc import Iterator

import pytest

from andon.ports import Backend
from tests.support.backend_contract import (
    test_a_sample_carries_the_time_it_was_asked_at,
    test_every_reading_belongs_to_a_described_device,
    test_every_unknown_value_has_a_reason_and_every_reason_an_unknown_value,
    test_older_values_tell_when_they_were_read,
    test_readings_start_out_ok,
    test_the_same_facts_are_told_twice,
    test_values_lie_in_their_ranges,
    test_versions_are_texts,
)

__all__ = [
    "test_a_sample_carries_the_time_it_was_asked_at",
    "test_every_reading_belongs_to_a_described_device",
    "test_every_unknown_value_has_a_reason_and_every_reason_an_unknown_value",
    "test_older_values_tell_when_they_were_read",
    "test_readings_start_out_ok",
    "test_the_same_facts_are_told_twice",
    "test_values_lie_in_their_ranges",
    "test_versions_are_texts",
]


@pytest.fixture(params=["nvidia", "sim", "mock"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made: Backend
    if request.param == "nvidia":
        request.getfixturevalue("loaded")
        from andon.backends.nvidia import Nvidia

        made = Nvidia(root=str(request.getfixturevalue("tmp_path")))
    elif request.param == "sim":
        from andon.backends.sim import Simulation

        made = Simulation(count=4)
    else:
        from andon.testing.mock import MockGpuBackend

        made = MockGpuBackend()
        for index in range(4):
            made = made.with_device(index, "Mock").with_temperature(60).with_utilization(10)
    yield made
    made.close()


def test_it_lists_each_card_once(backend: Backend) -> None:
    cards = backend.open()
    assert len(cards) == 4
    assert len({card.key for card in cards}) == 4
    assert [card.index for card in cards] == [0, 1, 2, 3]


def test_closing_twice_is_fine_and_it_opens_again(backend: Backend) -> None:
    backend.open()
    backend.close()
    backend.close()
    assert len(backend.open()) == 4


def test_a_glance_asks_no_driver(backend: Backend, request: pytest.FixtureRequest) -> None:
    backend.glance()
    if backend.name == "nvidia":
        assert request.getfixturevalue("standin").calls() == {}
