"""NVIDIA's event queue over the stand-in: heard by a thread that holds up nobody."""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import Queue
from types import ModuleType

import pytest

from andon.drivers.nvidia import Nvidia, events, nvml
from andon.model.device import Card
from andon.model.event import Event, EventKind
from andon.ports import Announcing
from tests.conftest import shut_down
from tests.standin import StandIn, error, lost, not_supported
from tests.support.clocks import Clock
from tests.support.replaced import constants

WAIT = "nvmlEventSetWait_v2"


class Ears:
    """A backend that was read once, and what it announces."""

    def __init__(self, backend: Nvidia) -> None:
        self.backend = backend
        self.heard: Queue[Event] = Queue()
        self._cards: Sequence[Card] = ()
        backend.announce(self._take)

    def read(self) -> None:
        self._cards = self._cards or self.backend.open()
        for card in self._cards:
            self.backend.read(card, 1000.0, False)

    def next(self) -> Event:
        return self.heard.get(timeout=120)

    def _take(self, told: Sequence[Event]) -> None:
        for event in told:
            self.heard.put(event)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ears(
    loaded: ModuleType,
    standin: StandIn,
    tmp_path: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ears]:
    constants(
        monkeypatch,
        events,
        SETTLING_SECONDS=0.0,
        PAUSE_SECONDS=0.0,
        BACK_OFF_SECONDS=0.01,
        WAIT_SECONDS=0.1,
        WAIT_RESTING_SECONDS=0.1,
    )
    backend = Nvidia(str(tmp_path), clock)
    yield Ears(backend)
    standin.set_faults()
    backend.close()
    standin.set_faults(error(1, WAIT))  # wakes what waits, which then ends
    ended()
    standin.set_faults()
    shut_down(loaded)


def ended() -> None:
    for thread in threading.enumerate():
        if thread.name == "events":
            thread.join(60)
            assert not thread.is_alive()


def listening(standin: StandIn, more: int = 1) -> None:
    """Until it has asked every card, and waits in the driver so many times after that."""
    _until(lambda: standin.calls().get("nvmlDeviceGetSupportedEventTypes", 0) >= 4)
    times = standin.calls().get(WAIT, 0) + more
    _until(lambda: standin.calls().get(WAIT, 0) >= times)


def _until(holds: Callable[[], bool]) -> None:
    tick = threading.Event()
    while not holds():
        tick.wait(0.005)


def test_an_xid_is_told_with_its_device_and_number(ears: Ears, standin: StandIn) -> None:
    ears.read()
    listening(standin)
    standin.xid(2, 79)
    event = ears.next()
    assert (event.kind, event.code, event.source) == (EventKind.XID, 79, "nvml")
    assert event.uuid == standin.node[2].uuid
    standin.ecc(1)
    event = ears.next()
    assert (event.kind, event.code, event.uuid) == (EventKind.ECC, None, standin.node[1].uuid)
    assert event.detail == "an uncorrectable error in the device's memory"


def test_an_xid_without_a_number_is_told_as_unknown(ears: Ears, standin: StandIn) -> None:
    ears.read()
    listening(standin)
    standin.xid(0, 999)
    assert ears.next().code is None


def test_a_card_that_reports_nothing_does_not_keep_the_others_quiet(
    ears: Ears, standin: StandIn
) -> None:
    standin.set_faults(
        not_supported("nvmlDeviceGetSupportedEventTypes", device=0),
        not_supported("nvmlDeviceRegisterEvents", device=1),
    )
    ears.read()
    listening(standin)
    standin.xid(0, 31)
    standin.xid(1, 31)
    standin.xid(3, 13)
    event = ears.next()
    assert (event.uuid, event.code) == (standin.node[3].uuid, 13)
    assert ears.heard.empty()


def test_it_hears_the_others_after_one_card_is_lost(ears: Ears, standin: StandIn) -> None:
    ears.read()
    listening(standin)
    standin.set_faults(lost(1), error(15, WAIT))  # as the driver does: every wait fails at once
    listening(standin, 5)
    standin.set_faults(lost(1))
    listening(standin)
    standin.xid(2, 48)
    assert ears.next().uuid == standin.node[2].uuid


def test_a_storm_is_told_as_one_event_of_each_kind(ears: Ears, standin: StandIn) -> None:
    ears.read()
    listening(standin)
    with standin.broken(error(10, WAIT)):  # nobody hears while it rages
        for _ in range(20):
            standin.xid(0, 31)
            standin.xid(1, 31)
    assert {ears.next().uuid, ears.next().uuid} == {standin.node[0].uuid, standin.node[1].uuid}
    standin.xid(3, 62)
    assert ears.next().code == 62, "and nothing else came between"


def test_it_waits_and_does_not_poll(
    ears: Ears, standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, events, WAIT_SECONDS=30.0)
    settled = threading.Event()
    wait = nvml.wait_event

    def noted(handle: object, timeout_seconds: float) -> nvml.RawEvent | None:
        if timeout_seconds == events.WAIT_SECONDS:
            settled.set()
        return wait(handle, timeout_seconds)

    monkeypatch.setattr(nvml, "wait_event", noted)
    ears.read()
    assert settled.wait(60), "a short wait while cards are being added, then a long one"
    before = standin.calls()
    for _ in range(50):
        ears.read()
    after = standin.calls()
    assert after["nvmlDeviceGetTemperature"] >= before["nvmlDeviceGetTemperature"] + 200
    assert after[WAIT] <= before[WAIT] + 1, "the long wait may have begun just now"
    assert after["nvmlDeviceRegisterEvents"] == 4


def test_when_the_driver_goes_away_it_ends(ears: Ears, standin: StandIn) -> None:
    ears.read()
    listening(standin)
    standin.uninitialise()
    ended()


def test_it_lets_go_of_nvml_when_the_cards_may_sleep(
    ears: Ears, standin: StandIn, clock: Clock, tmp_path: Path
) -> None:
    for device in standin.node:
        power = tmp_path / "sys/bus/pci/drivers/nvidia" / device.bus_id[4:].lower() / "power"
        power.mkdir(parents=True)
        (power / "control").write_text("auto")
        (power / "runtime_status").write_text("active")
    ears.read()
    listening(standin)
    clock.now += 11.0
    ears.read()
    ended()
    calls = standin.calls()
    assert calls["nvmlShutdown"] == calls["nvmlInitWithFlags"], "nothing keeps a card awake"
    assert calls["nvmlEventSetFree"] == calls["nvmlEventSetCreate"] == 1


def test_nobody_is_listened_to_for_one_who_does_not_ask(
    loaded: ModuleType, standin: StandIn, tmp_path: Path
) -> None:
    backend = Nvidia(str(tmp_path))
    for card in backend.open():
        backend.read(card, 1000.0, False)
    backend.close()
    assert "nvmlEventSetCreate" not in standin.calls()
    shut_down(loaded)


def test_the_backend_says_that_it_announces(tmp_path: Path) -> None:
    assert isinstance(Nvidia(str(tmp_path)), Announcing)
