"""Readers and looks that make no sense cost what they spoil, and nothing else ends."""

import logging
import os
import select
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import asdict

from andon.host.files import wait_readable
from andon.model import wire
from andon.model.codec import to_json
from andon.model.device import Card, Device, Host, Reading, Sample, State
from andon.sampling.readers import Messages, ReaderProcess, Vendor
from andon.sampling.rules.masks import Visibility, visibility
from andon.sampling.rules.roster import BackendChoice
from andon.sampling.sampler import NodeIdentity, Sampler

CARDS = [Card("a", 0, "0000:01:00.0"), Card("b", 1, "0000:02:00.0")]
GOOD = Device("GPU-a", 0, "nvidia", "H200", "0000:01:00.0")
OTHER = Device("GPU-b", 1, "nvidia", "H200", "0000:02:00.0")
OPENED = {"opened": [asdict(card) for card in CARDS], "versions": {}}


class Silent:
    """In place of a reader's process: what it says is said by the test."""

    pid = 7
    code: int | None = None

    def ask(self, request: object) -> None: ...
    def nudge(self) -> None: ...
    def forget(self) -> None: ...
    def close(self, timeout_seconds: float = 0.0) -> None: ...
    def ended(self) -> int | None:
        return self.code

    def last_error_line(self) -> str:
        return ""


@pytest.fixture
def vendor() -> Vendor:
    made = Vendor("nvidia", [BackendChoice("nvidia", {})], 1.0, cast("Any", lambda *_: Silent()))
    made.ask(1, False, 0.0)
    hear(made, OPENED)
    return made


def hear(vendor: Vendor, *messages: dict[str, Any]) -> None:
    vendor.hear(list(messages), 1.0, 1.0)


def answer(card: str, device: Device, **changes: Any) -> dict[str, Any]:
    reading = wire.reading_to_json(Reading(device.uuid, Sample(1.0, utilization_percent=5)))
    return {"card": card, "devices": [to_json(device)], "readings": [reading]} | changes


def states(vendor: Vendor) -> dict[str, State]:
    return {status.device.uuid: status.state for status in vendor.roster.statuses({})}


def test_a_device_that_makes_no_sense_costs_itself_alone(vendor: Vendor) -> None:
    bad = {**to_json(OTHER), "pci": 5}
    hear(vendor, answer("a", GOOD, devices=[to_json(GOOD), bad]))
    assert states(vendor)["GPU-a"] is State.OK
    assert vendor.fault is not None
    assert "pci is 5, not a string" in vendor.fault.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"readings": [{}]},
        {"readings": 5},
        {"readings": [{"uuid": "GPU-b", "state": "odd", "missing": {}, "processes": []}]},
        {"readings": [{"uuid": "GPU-b", "state": "ok", "processes": [{}], "missing": {}}]},
        {"devices": 5},
        {"lost": 3, "readings": None},
    ],
)  # fmt: skip
def test_an_answer_that_makes_no_sense_is_a_card_that_could_not_be_read(
    vendor: Vendor, changes: dict[str, Any]
) -> None:
    hear(vendor, answer("b", OTHER), answer("a", GOOD))
    hear(vendor, answer("b", OTHER, **changes), answer("a", GOOD))
    assert states(vendor) == {"GPU-a": State.OK, "GPU-b": State.STALE}
    assert vendor.garbled == 1
    hear(vendor, answer("b", OTHER))
    assert states(vendor)["GPU-b"] is State.OK, "the next one counts again"
    assert vendor.fault is None


@pytest.mark.parametrize(
    "message",
    [{"events": [{"kind": "odd"}]}, {"events": 5}, {"cost": {}}, {"opened": [{}]}, {"down": 5}],
)
def test_any_other_nonsense_is_counted(vendor: Vendor, message: dict[str, Any]) -> None:
    hear(vendor, answer("a", GOOD))
    hear(vendor, message, answer("a", GOOD))
    assert states(vendor)["GPU-a"] is State.OK
    assert vendor.garbled == 1


def test_a_line_that_is_not_json_is_the_end_of_a_reader() -> None:
    heard: list[Messages | None] = []
    ears, mouth = os.pipe()
    reader: Any = ReaderProcess.__new__(ReaderProcess)
    reader._spawned, reader._rest = type("Spawned", (), {"answers": ears}), b""
    for line in (b'{"hello":1}\n{"hel', b'lo":2}\n', b"Segmentation fault\n"):
        os.write(mouth, line)
        heard.append(reader.receive())
    os.close(mouth)
    heard.append(reader.receive())
    os.close(ears)
    assert heard == [[{"hello": 1}], [{"hello": 2}], None, None]


# The loop.


class Moods:
    """A mask that works, until it does not."""

    def __init__(self) -> None:
        self.broken = False

    def __call__(self, devices: Any) -> Visibility:
        if self.broken:
            raise TypeError("'<' not supported between instances of 'int' and 'str'")
        return visibility(devices, {})


class NoHost:
    def read(self) -> Host:
        return Host()


@pytest.fixture
def moods() -> Moods:
    return Moods()


@pytest.fixture
def sampler(moods: Moods) -> Iterator[Sampler]:
    vendors = {"sim": (BackendChoice("sim", {"count": 2, "seed": 1}),)}
    with Sampler(vendors, NoHost(), NodeIdentity("n", None), moods) as made:
        yield made


@pytest.mark.process
def test_a_look_that_fails_is_a_fault_and_what_was_known_is_stale(
    sampler: Sampler, moods: Moods, caplog: pytest.LogCaptureFixture
) -> None:
    assert [s.state for s in sampler.once().devices] == [State.OK] * 2
    moods.broken = True
    with caplog.at_level(logging.ERROR, "andon.sampler"):
        first, second = sampler.once(), sampler.once()
    assert [s.state for s in first.devices] == [State.STALE] * 2
    assert [s.since for s in first.devices] == [s.since for s in second.devices]
    assert [fault.source for fault in first.faults] == ["sampler"]
    assert "'<' not supported" in first.faults[0].reason
    assert sampler.costs().failed == 2
    assert len(caplog.records) == 1, "told once"
    assert "Traceback" not in caplog.text
    moods.broken = False
    assert [s.state for s in sampler.once().devices] == [State.OK] * 2


@pytest.mark.process
def test_who_waits_for_a_look_is_not_left_waiting(sampler: Sampler, moods: Moods) -> None:
    moods.broken = True
    with sampler.subscribe(0.05) as session:
        snapshots = iter(session)
        assert next(snapshots).faults
        assert next(snapshots).faults, "the loop goes on"
        moods.broken = False
        while next(snapshots).faults:
            pass


def test_a_reader_that_a_real_time_signal_ended_is_said_to_have_ended(vendor: Vendor) -> None:
    cast("Silent", vendor._reader).code = -40
    hear(vendor)
    assert vendor.fault is not None
    assert vendor.fault.reason == "the reader ended: killed by signal 40"


@pytest.mark.parametrize("ending", [b"", b"x"])
def test_a_pipe_is_ready_when_it_holds_something_or_has_ended(ending: bytes) -> None:
    (ears, mouth), (quiet, other) = os.pipe(), os.pipe()
    try:
        assert wait_readable([ears, quiet], 0.0) == []
        os.write(mouth, ending) if ending else os.close(mouth)
        assert wait_readable([ears, quiet], 5.0) == [ears]
    finally:
        for end in (ears, quiet, other, *([mouth] if ending else [])):
            os.close(end)


def test_windows_is_asked_pipe_by_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {1: 0, 2: 7}

    def peek(handle: int, size: int) -> tuple[int, int]:
        if handle not in held:
            raise BrokenPipeError
        return held[handle], size

    monkeypatch.delattr(select, "poll")
    monkeypatch.setitem(sys.modules, "_winapi", SimpleNamespace(PeekNamedPipe=peek))
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(get_osfhandle=lambda pipe: pipe))
    assert wait_readable([1, 2, 3], 0.0) == [2, 3]
    assert wait_readable([1], 0.01) == []
