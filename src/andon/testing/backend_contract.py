"""The contract of every backend, as a pytest suite that other packages can use too.

class TestMyBackend(BackendContract):
    @pytest.fixture
    def backend(self):
        return MyBackend()
"""

from collections.abc import Sequence
from typing import ClassVar

from andon.model.device import SAMPLE_VALUES, Card, Device, Reading, State
from andon.ports import Backend


def read_all(
    backend: Backend, at: float, watched: bool = False
) -> tuple[Sequence[Card], list[Device], list[Reading]]:
    """The cards of a backend, their devices, and one reading of each."""
    cards = backend.open()
    devices = [device for card in cards for device in backend.describe(card)]
    readings = [reading for card in cards for reading in backend.read(card, at, watched)]
    return cards, devices, readings


class BackendContract:
    """Subclass it with a fixture `backend`: one whose devices all answer, not opened yet."""

    at: ClassVar[float] = 1000.0
    """When the devices are read, in UTC seconds."""

    def test_each_card_is_listed_once(self, backend: Backend) -> None:
        cards = backend.open()
        assert cards
        assert len({card.key for card in cards}) == len(cards)
        assert len({card.index for card in cards}) == len(cards)

    def test_a_glance_needs_no_driver_and_lists_no_other_card(self, backend: Backend) -> None:
        glanced = {card.key for card in backend.glance()}
        assert glanced <= {card.key for card in backend.open()}

    def test_closing_twice_is_fine_and_it_opens_again(self, backend: Backend) -> None:
        before = [card.key for card in backend.open()]
        backend.close()
        backend.close()
        assert [card.key for card in backend.open()] == before

    def test_every_reading_belongs_to_a_described_device(self, backend: Backend) -> None:
        _, devices, readings = read_all(backend, self.at)
        assert {reading.uuid for reading in readings} == {device.uuid for device in devices}
        assert len({device.uuid for device in devices}) == len(devices)

    def test_every_unknown_value_has_a_reason_and_every_reason_an_unknown_value(
        self, backend: Backend
    ) -> None:
        _, _, readings = read_all(backend, self.at)
        for reading in readings:
            assert reading.sample is not None
            unknown = {name for name in SAMPLE_VALUES if getattr(reading.sample, name) is None}
            assert unknown == set(reading.missing) - {"processes"}
            assert all(reason.strip() for reason in reading.missing.values())

    def test_the_same_facts_are_told_twice(self, backend: Backend) -> None:
        cards = backend.open()
        assert [list(backend.describe(c)) for c in cards] == [
            list(backend.describe(c)) for c in cards
        ]

    def test_a_sample_carries_the_time_it_was_asked_at(self, backend: Backend) -> None:
        _, _, readings = read_all(backend, self.at)
        assert {reading.sample.at for reading in readings if reading.sample} == {self.at}

    def test_values_lie_in_their_ranges(self, backend: Backend) -> None:
        _, devices, readings = read_all(backend, self.at, watched=True)
        totals = {device.uuid: device.memory_total_bytes for device in devices}
        for reading in readings:
            sample = reading.sample
            assert sample is not None
            for name in sample.__struct_fields__:
                value = getattr(sample, name)
                if name.endswith("_percent") and value is not None:
                    assert 0 <= value <= 100, name
                if name.endswith(("_bytes", "_watts", "_mhz")) and value is not None:
                    assert value >= 0, name
            total, used = totals[reading.uuid], sample.memory_used_bytes
            assert used is None or total is None or used <= total

    def test_older_values_tell_when_they_were_read(self, backend: Backend) -> None:
        cards = backend.open()
        for at in (self.at, self.at + 1.0):
            readings = [reading for card in cards for reading in backend.read(card, at, False)]
        for reading in readings:
            assert reading.sample is not None
            for name, read_at in reading.sample.read_at.items():
                assert getattr(reading.sample, name) is not None
                assert read_at < self.at + 1.0

    def test_versions_are_texts(self, backend: Backend) -> None:
        backend.open()
        assert all(type(v) is str and v != "" for v in backend.versions().values())

    def test_readings_start_out_ok(self, backend: Backend) -> None:
        _, _, readings = read_all(backend, self.at)
        assert {reading.state for reading in readings} == {State.OK}
