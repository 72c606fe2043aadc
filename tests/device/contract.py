"""What must hold for every snapshot, through the public interface only."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import fields

import andon
from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.model import wire, wire_in
from andon.model.device import SAMPLE_VALUES, Sample, Snapshot, State
from andon.sampling.sampler import Sampler
from tests.device.scenes import Scene

FAST = (
    "utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts",
    "sm_clock_mhz", "memory_clock_mhz",
)  # fmt: skip
BUSY_PERCENT = 50
LATE_SECONDS = 2.0


@contextmanager
def sampler() -> Iterator[Sampler]:
    """A new sampler with a new reader."""
    with open_sampler(load_settings({}).settings) as made:
        yield made


def samples(snapshot: Snapshot) -> Iterator[Sample]:
    for status in snapshot.devices:
        assert status.sample is not None, f"{status.device.uuid} has no sample: {status.reason}"
        yield status.sample


def the_first_snapshot_is_complete(scene: Scene) -> str:
    """No warm-up: the first sample of a new reader is as complete as later ones."""
    started = time.perf_counter()
    with sampler() as fresh:
        first = fresh.once()
        took = time.perf_counter() - started
    assert not first.faults, first.faults
    assert first.devices, "no device was found"
    assert first.host.cpu_percent is not None
    for status in first.devices:
        assert status.state in (State.OK, State.ASLEEP), (status.state, status.reason)
        if status.device.parent is None and status.sample is not None:
            absent = [
                n for n in FAST if getattr(status.sample, n) is None and n not in status.missing
            ]
            assert not absent, absent
    if scene.busy:
        use = first.devices[0].sample.utilization_percent if first.devices[0].sample else None
        assert use is not None, first.devices[0].missing
        assert use > BUSY_PERCENT, f"{use} % under load"
    return f"{len(first.devices)} devices, {took * 1e3:.0f} ms from a cold start"


def every_device_is_named_once(scene: Scene) -> str:
    found = andon.snapshot().devices
    assert len({status.device.uuid for status in found}) == len(found)
    boards = [status.device for status in found if status.device.parent is None]
    assert [device.index for device in boards] == list(range(len(boards)))
    assert all(device.name and device.uuid and device.memory_total_bytes for device in boards)
    return ", ".join(f"{device.index} {device.name}" for device in boards)


def every_unknown_value_has_a_reason(scene: Scene) -> str:
    snapshot = andon.snapshot()
    for status, sample in zip(snapshot.devices, samples(snapshot), strict=True):
        unknown = {name for name in SAMPLE_VALUES if getattr(sample, name) is None}
        assert unknown == set(status.missing) - {"processes"}
        assert all(reason.strip() for reason in status.missing.values())
    reasons = snapshot.devices[0].missing
    return "; ".join(f"{name}: {why}" for name, why in reasons.items()) or "nothing is unknown"


def values_lie_in_their_ranges(scene: Scene) -> str:
    snapshot = andon.snapshot()
    for status, sample in zip(snapshot.devices, samples(snapshot), strict=True):
        for field in fields(sample):
            value = getattr(sample, field.name)
            if field.name.endswith("_percent") and value is not None:
                assert 0 <= value <= 100, (field.name, value)
            if field.name.endswith(("_bytes", "_watts", "_mhz", "_joules")) and value is not None:
                assert value >= 0, (field.name, value)
        total, used = status.device.memory_total_bytes, sample.memory_used_bytes
        assert used is None or total is None or used <= total
        parts = used, sample.memory_free_bytes, sample.memory_reserved_bytes
        if total is not None and None not in parts:
            assert abs(sum(part or 0 for part in parts) - total) < 1 << 20, (parts, total)
    return "percent, bytes, watts, clocks, joules"


def older_values_tell_when_they_were_read(scene: Scene) -> str:
    with sampler() as own:
        own.once()
        snapshot = own.once()
    older = set()
    for sample in samples(snapshot):
        for name, read_at in sample.read_at.items():
            assert getattr(sample, name) is not None, name
            assert read_at < sample.at, name
            older.add(name)
    return ", ".join(sorted(older)) or "none is older"


def a_snapshot_survives_json(scene: Scene) -> str:
    snapshot = andon.snapshot()
    text = wire.dumps(wire.snapshot_to_json(snapshot))
    again = wire_in.snapshot_from_json(wire.loads(text, wire.ANSWER))
    assert again == snapshot
    return f"{len(text)} bytes"


def the_same_facts_are_told_twice(scene: Scene) -> str:
    with sampler() as one, sampler() as other:
        first, second = one.once(), other.once()
    assert [s.device for s in first.devices] == [s.device for s in second.devices]
    assert first.versions == second.versions
    assert first.versions.get("driver")
    assert all(first.versions.values())
    return ", ".join(f"{name} {text}" for name, text in first.versions.items())


def samples_follow_the_clock(scene: Scene) -> str:
    with sampler() as own:
        seen = [own.once() for _ in range(3)]
    for snapshot in seen:
        assert abs(snapshot.at - time.time()) < 60
        assert all(0 <= sample.at - snapshot.at < LATE_SECONDS for sample in samples(snapshot))
    assert seen[0].at < seen[1].at < seen[2].at
    return "three ticks in order"
