"""`/metrics` of any snapshot at all, the impossible ones included."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andon.exporter import Exposition
from andon.model.device import (
    SAMPLE_VALUES,
    Device,
    DeviceStatus,
    Disk,
    Fault,
    Host,
    Limits,
    MemoryKind,
    Network,
    Process,
    ProcessKind,
    Sample,
    Snapshot,
    State,
)
from andon.sampling.sampler import Costs
from tests.support.exposition import parse


def optional(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | values


ANY_TEXT = st.text(st.characters(), max_size=12) | st.sampled_from(["a\udc80", "b\x00", '"', "\\"])
ANY_NUMBER = st.integers(0, 2**70) | st.floats()
LIMITS = st.builds(Limits, *[optional(ANY_NUMBER)] * 5)
DEVICES = st.builds(
    Device,
    uuid=ANY_TEXT,
    index=st.integers(0, 3),
    vendor=ANY_TEXT | st.sampled_from(["sim", "nvidia", "intel"]),
    name=ANY_TEXT,
    pci=optional(ANY_TEXT),
    parent=optional(ANY_TEXT),
    memory_kind=st.sampled_from(MemoryKind),
    memory_total_bytes=optional(ANY_NUMBER),
    limits=LIMITS,
)
READINGS = {n: optional(ANY_NUMBER) for n in SAMPLE_VALUES} | {
    "throttle": optional(st.lists(ANY_TEXT, max_size=3).map(tuple))
}
SAMPLES = st.builds(Sample, at=ANY_NUMBER, **READINGS)
PROCESSES = st.builds(
    Process,
    pid=st.integers(1, 9),
    kind=st.sampled_from(ProcessKind),
    user=optional(ANY_TEXT),
    memory_bytes=optional(st.integers(0, 2**50)),
)
STATUSES = st.builds(
    DeviceStatus,
    device=DEVICES,
    state=st.sampled_from(State),
    since=ANY_NUMBER,
    sample=optional(SAMPLES),
    processes=st.lists(PROCESSES, max_size=3).map(tuple),
)
HOSTS = st.builds(
    Host,
    cpu_percent=optional(ANY_NUMBER),
    disk=st.lists(st.builds(Disk, ANY_TEXT, st.integers(), st.integers()), max_size=3).map(tuple),
    network=st.lists(st.builds(Network, ANY_TEXT, st.integers(), st.integers()), max_size=3).map(
        tuple
    ),
)
SNAPSHOTS = st.builds(
    Snapshot,
    node=ANY_TEXT,
    at=ANY_NUMBER,
    simulated=st.booleans(),
    versions=st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=3),
    host=HOSTS,
    devices=st.lists(STATUSES, max_size=3).map(tuple),
    faults=st.lists(st.builds(Fault, ANY_TEXT, ANY_TEXT), max_size=2).map(tuple),
)


@pytest.mark.slow
@settings(max_examples=settings().max_examples * 3 // 2, deadline=None)
@given(SNAPSHOTS)
def test_any_snapshot_at_all_renders_to_text_that_a_strict_reader_takes(snapshot: Snapshot) -> None:
    text = Exposition().render(snapshot, Costs(), 1.0)
    found = parse(text.encode("utf-8").decode("utf-8"))
    numbers = [value for family in found.values() for value in family.series.values()]
    assert all(math.isfinite(value) for value in numbers)
