"""What every backend must keep: imported by each module that has a backend to try."""

from collections.abc import Sequence
from dataclasses import fields

from andon.model.device import SAMPLE_VALUES, Card, Device, Reading, State
from andon.ports import Backend


def read_all(
    backend: Backend, at: float, watched: bool = False
) -> tuple[Sequence[Card], list[Device], list[Reading]]:
    cards = backend.open()
    devices = [device for card in cards for device in backend.describe(card)]
    readings = [reading for card in cards for reading in backend.read(card, at, watched)]
    return cards, devices, readings


def test_every_reading_belongs_to_a_described_device(backend: Backend) -> None:
    _, devices, readings = read_all(backend, 1000.0)
    assert {reading.uuid for reading in readings} == {device.uuid for device in devices}
    assert len({device.uuid for device in devices}) == len(devices)


def test_every_unknown_value_has_a_reason_and_every_reason_an_unknown_value(
    backend: Backend,
) -> None:
    _, _, readings = read_all(backend, 1000.0)
    for reading in readings:
        assert reading.sample is not None
        unknown = {name for name in SAMPLE_VALUES if getattr(reading.sample, name) is None}
        assert unknown == set(reading.missing) - {"processes"}
        assert all(reason.strip() for reason in reading.missing.values())


def test_the_same_facts_are_told_twice(backend: Backend) -> None:
    cards = backend.open()
    assert [list(backend.describe(c)) for c in cards] == [list(backend.describe(c)) for c in cards]


def test_a_sample_carries_the_time_it_was_asked_at(backend: Backend) -> None:
    _, _, readings = read_all(backend, 1234.5)
    assert {reading.sample.at for reading in readings if reading.sample} == {1234.5}


def test_values_lie_in_their_ranges(backend: Backend) -> None:
    _, devices, readings = read_all(backend, 1000.0, watched=True)
    totals = {device.uuid: device.memory_total_bytes for device in devices}
    for reading in readings:
        sample = reading.sample
        assert sample is not None
        for field in fields(sample):
            value = getattr(sample, field.name)
            if field.name.endswith("_percent") and value is not None:
                assert 0 <= value <= 100, field.name
            if field.name.endswith(("_bytes", "_watts", "_mhz")) and value is not None:
                assert value >= 0, field.name
        total, used = totals[reading.uuid], sample.memory_used_bytes
        assert used is None or total is None or used <= total


def test_older_values_tell_when_they_were_read(backend: Backend) -> None:
    cards = backend.open()
    for at in (1000.0, 1001.0):
        readings = [reading for card in cards for reading in backend.read(card, at, False)]
    for reading in readings:
        assert reading.sample is not None
        for name, read_at in reading.sample.read_at.items():
            assert getattr(reading.sample, name) is not None
            assert read_at < 1001.0


def test_versions_are_texts(backend: Backend) -> None:
    backend.open()
    assert all(type(v) is str and v != "" for v in backend.versions().values())


def test_readings_start_out_ok(backend: Backend) -> None:
    _, _, readings = read_all(backend, 1000.0)
    assert {reading.state for reading in readings} == {State.OK}
