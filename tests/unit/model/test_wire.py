"""`andon.snapshot/1`: exactly as documented, back and forth, and deaf to nonsense."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from andon.errors import Invalid
from andon.model import wire, wire_in
from andon.model.codec import read, to_json
from andon.model.device import (
    SAMPLE_VALUES,
    Card,
    Device,
    DeviceStatus,
    Process,
    Reading,
    Sample,
    Snapshot,
    State,
)
from andon.model.naming import device_labels, with_labels
from tests.support import snapshots as drawn
from tests.support.full_snapshot import FULL

FIRST = json.loads((Path(__file__).parents[2] / "golden" / "snapshot-1.json").read_text())
"""A snapshot as the first version wrote it."""


PARTED = Snapshot(
    node="n1",
    at=1.0,
    devices=tuple(
        DeviceStatus(Device(uuid, 6, "nvidia", "H200", parent=parent), State.OK, 1.0)
        for uuid, parent in (("GPU-6", None), ("MIG-a", "GPU-6"), ("MIG-b", "GPU-6"))
    ),
)


def test_every_device_has_the_label_that_it_is_called_by() -> None:
    out = wire.snapshot_to_json(PARTED)
    assert [one["label"] for one in out["devices"]] == ["6", "6:0", "6:1"]
    assert wire_in.snapshot_from_json(out) == PARTED


def test_a_label_that_is_absent_is_computed() -> None:
    out = wire.snapshot_to_json(PARTED)
    for one in out["devices"]:
        del one["label"]
    read = wire_in.snapshot_from_json(out)
    assert list(device_labels(read.devices).values()) == ["6", "6:0", "6:1"]


def test_a_partition_keeps_its_label_where_others_are_left_out() -> None:
    alone = replace(PARTED, devices=with_labels(PARTED.devices)[2:])
    out = wire.snapshot_to_json(alone)
    assert [one["label"] for one in out["devices"]] == ["6:1"]
    read = wire_in.snapshot_from_json(out)
    assert wire.snapshot_to_json(read) == out


@pytest.mark.parametrize("one", [FULL, PARTED, drawn.farm()])
def test_a_bare_snapshot_is_read_as_the_same(one: Snapshot) -> None:
    whole = wire_in.snapshot_from_json(
        wire.loads(wire.struct_text(wire.snapshot_to_json(one)), wire.ANSWER)
    )
    assert (
        wire_in.snapshot_from_json(
            wire.loads(wire.struct_text(wire.bare_snapshot(one)), wire.ANSWER)
        )
        == whole
    )


def test_every_key_of_the_first_version_stays_in_its_place() -> None:
    """New ones may appear between them; none is removed."""
    out = wire.snapshot_to_json(FULL)

    def places(said: dict[str, Any]) -> list[dict[str, Any]]:
        device = said["devices"][0]
        return [said, device, device["sample"], device["limits"], device["processes"][0]]

    for now, first in zip(places(out), places(FIRST), strict=True):
        assert [key for key in now if key in first] == [key for key in first if key in now]
        assert set(first) <= set(now)


def test_there_and_back_is_the_same() -> None:
    assert (
        wire_in.snapshot_from_json(wire.loads(wire.dumps(wire.snapshot_to_json(FULL)), wire.ANSWER))
        == FULL
    )


def test_shares_and_unattributed_memory_are_computed() -> None:
    device = wire.snapshot_to_json(FULL)["devices"][0]
    assert device["sample"]["memory_percent"] == 50.0
    assert device["sample"]["power_percent"] == 50.0
    assert device["memory_unattributed_bytes"] == 100


def test_a_device_that_never_answered_has_no_sample() -> None:
    assert wire.snapshot_to_json(FULL)["devices"][1]["sample"] is None


def test_a_share_without_its_parts_gives_their_reason() -> None:
    status = DeviceStatus(
        Device("GPU-1", 0, "nvidia", "H200"),
        State.OK,
        1.0,
        sample=Sample(1.0, power_watts=10.0),
        missing={"memory_used_bytes": "no permission"},
    )
    missing = wire.missing_with_shares(status, wire.status_sample_to_json(status))
    assert missing["memory_percent"] == "no permission"
    assert missing["power_percent"] == "the power limit is unknown"


def test_unattributed_memory_is_unknown_when_a_process_does_not_tell_its_own() -> None:
    status = DeviceStatus(
        Device("GPU-1", 0, "nvidia", "H200"),
        State.OK,
        1.0,
        sample=Sample(1.0, memory_used_bytes=100),
        processes=(Process(1, memory_bytes=None), Process(2, memory_bytes=30)),
    )
    assert status.memory_unattributed_bytes is None


@pytest.mark.parametrize("schema", ["andon.snapshot/2", "", None, 1])
def test_another_version_is_refused_with_a_hint(schema: object) -> None:
    with pytest.raises(Invalid) as caught:
        wire_in.snapshot_from_json({"schema": schema})
    assert "upgrade" in caught.value.hint


def test_what_a_newer_sender_adds_is_ignored() -> None:
    out = wire.snapshot_to_json(FULL)
    out["new"] = out["devices"][0]["new"] = out["devices"][0]["sample"]["new"] = 1
    assert wire_in.snapshot_from_json(out) == FULL


@pytest.mark.parametrize("value", ["1", True, float("nan"), float("inf"), [], {}])
def test_a_number_that_is_not_one_is_refused_with_its_name(value: object) -> None:
    out = wire.snapshot_to_json(FULL)
    out["devices"][0]["sample"]["power_watts"] = value
    with pytest.raises(Invalid, match="power_watts"):
        wire_in.snapshot_from_json(out)


@pytest.mark.parametrize("text", ["", "[]", "nope", "[" * 100_000, '"x"', "3"])
def test_what_is_not_an_object_is_invalid(text: str) -> None:
    with pytest.raises(Invalid):
        wire.loads(text, wire.ANSWER)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def test_a_line_of_a_snapshot_is_the_same_json() -> None:
    for name in ("train", "\u202egnp", "½", "\x7f", "\ud800"):
        snapshot = replace(FULL, node=name)
        line, usual = wire.snapshot_line(snapshot), wire.dumps(wire.snapshot_to_json(snapshot))
        assert json.loads(line) == json.loads(usual)
        assert line.isprintable() is usual.isprintable()
        assert list(json.loads(line)) == list(json.loads(usual))


@given(st.data())
def test_no_value_in_any_place_makes_it_raise_anything_but_invalid(data: st.DataObject) -> None:
    out = json.loads(wire.dumps(wire.snapshot_to_json(FULL)))
    place = data.draw(st.sampled_from([out, out["host"], *out["devices"]]))
    places = [place, out["devices"][0]["sample"], out["devices"][0]["processes"][0]]
    target = data.draw(st.sampled_from(places))
    target[data.draw(st.sampled_from(sorted(target)))] = data.draw(JSON)
    with contextlib.suppress(Invalid):
        wire_in.snapshot_from_json(out)


numbers = st.none() | st.integers(0, 2**60) | st.floats(0, 1e12, allow_nan=False)


@given(st.fixed_dictionaries(dict.fromkeys(set(SAMPLE_VALUES) - {"throttle"}, numbers)))
def test_every_sample_survives_a_reader(values: dict[str, float | None]) -> None:
    sample = Sample(1.0, **values)  # type: ignore[arg-type]
    reading = Reading("GPU-1", sample, {"x": "y"}, (Process(1, name="p"),), State.OK)
    line = wire.dumps(wire.reading_to_json(reading))
    assert wire_in.reading_from_json(wire.loads(line, wire.ANSWER)) == reading


parts = {
    "sample": st.builds(
        Sample,
        at=st.floats(0, 1e9),
        utilization_percent=st.none() | st.integers(0, 100),
        throttle=st.none() | st.just(()) | st.just(("sw_power_cap",)),
        read_at=st.dictionaries(st.sampled_from(SAMPLE_VALUES), st.floats(0, 1e9), max_size=2),
    ),
    "missing": st.dictionaries(st.sampled_from(SAMPLE_VALUES), st.just("why"), max_size=2),
    "processes": st.lists(st.builds(Process, st.integers(1, 9)), max_size=2).map(tuple),
    "state": st.sampled_from(State),
    "reason": st.none() | st.just("because"),
}


@given(st.lists(st.builds(Reading, uuid=st.just("GPU-1"), **parts), min_size=1, max_size=6))
def test_differences_add_up_to_the_whole(readings: list[Reading]) -> None:
    sent = got = None
    for reading in readings:
        line = wire.dumps(wire.reading_to_json(reading, sent))
        sent, got = reading, wire_in.reading_from_json(wire.loads(line, wire.ANSWER), got)
        assert got == reading


def test_a_difference_without_its_whole_is_refused() -> None:
    reading = Reading("GPU-1", Sample(1.0))
    with pytest.raises(Invalid):
        wire_in.reading_from_json(wire.reading_to_json(reading, reading))


def test_devices_cards_and_faults_survive_too() -> None:
    device = FULL.devices[0].device
    assert read(Device, to_json(device)) == device
    card = Card("k", 1, "0000:01:00.0", "x")
    assert read(Card, asdict(card)) == card
    fault = FULL.faults[0]
    assert read(type(fault), asdict(fault)) == fault


def test_the_recorded_example_still_reads() -> None:
    """Later versions must go on reading it."""
    assert wire_in.snapshot_from_json(FIRST) == FULL


def test_the_golden_snapshots_survive_the_wire() -> None:
    made = (drawn.farm(), drawn.masked(), drawn.simulated(), drawn.no_gpu(), drawn.faults())
    for snapshot in made:
        read = wire_in.snapshot_from_json(
            wire.loads(wire.dumps(wire.snapshot_to_json(snapshot)), wire.ANSWER)
        )
        assert read == snapshot


@pytest.mark.parametrize(
    "snapshot",
    [FULL, drawn.farm(), drawn.masked(), drawn.simulated(), drawn.no_gpu(), drawn.faults()],
    ids=["full", "farm", "masked", "simulated", "no_gpu", "faults"],
)
def test_what_this_version_wrote_reads_the_same(snapshot: Snapshot) -> None:
    told = wire.loads(wire.snapshot_line(snapshot), wire.ANSWER)
    assert wire_in.snapshot_from_json(told) == snapshot


def test_a_share_of_almost_nothing_is_unknown() -> None:
    """Another program may send any limit; JSON has no infinity."""
    sample = Sample(1.0, power_watts=300.0, power_limit_watts=5e-324)
    status = DeviceStatus(Device("GPU-1", 0, "nvidia", "H200"), State.OK, 0.0, sample=sample)
    assert status.power_percent is None


def test_a_text_with_too_many_values_is_refused_before_it_takes_the_memory() -> None:
    assert wire.loads('{"a": [1, 2]}', wire.TextBounds(100, 4)) == {"a": [1, 2]}
    for text in ('{"a": [1, 2, 3]}', b'{"a": [[], []]}', '{"a": {"b": {"c": {}}}}'):
        with pytest.raises(Invalid, match="or 3 values"):
            wire.loads(text, wire.TextBounds(100, 3))


def test_a_text_that_is_too_long_or_too_deep_is_refused() -> None:
    """What is deep is decoded by one call for each level, and shown by many more."""
    for levels, ends in ((63, True), (64, False), (900, False), (100_000, False)):
        text = '{"a":' + "[" * levels + "]" * levels + "}"
        if ends:
            assert "a" in wire.loads(text, wire.ANSWER)
            continue
        for one in (text, text.encode()):
            with pytest.raises(Invalid):
                wire.loads(one, wire.ANSWER)
            with pytest.raises(Invalid):
                wire.loads(one, wire.ANSWER, any_text=True)
    with pytest.raises(Invalid, match="more than 20 bytes"):
        wire.loads('{"a":"' + "x" * 20 + '"}', wire.TextBounds(20, 20))
