"""One notifier's thread: it tells again what failed, refreshes, and says when it is stuck."""

import threading
import time
from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace

from andon.alerts.rules.outbox import Delivery
from andon.alerts.sender import NotifierWork, NotifierWorker
from andon.alerts.waits import AlertWaits
from andon.errors import Unavailable
from andon.model.alert import Alert, Notice
from tests.support.alerting_parts import SOON, Heard
from tests.support.notices import DISK, HOT, LOST, notice
from tests.support.waiting import wait_for


class Desk:
    """Gives work out, and crosses off what was told."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.firing: tuple[Alert, ...] = ()
        self.settled = 0
        self.lock = threading.Lock()

    def add(self, *alerts: Alert, due: float = 0.0) -> None:
        with self.lock:
            self.deliveries += [Delivery(notice(alert), "phone", due) for alert in alerts]

    def work(self, _name: str) -> NotifierWork:
        with self.lock:
            ready = tuple(e for e in self.deliveries if e.due <= time.time())
            return NotifierWork(
                ready, self.firing, min((e.due for e in self.deliveries), default=None)
            )

    def told(self, deliveries: Sequence[Delivery]) -> None:
        with self.lock:
            self.deliveries = [e for e in self.deliveries if e not in deliveries]

    def settle(self) -> None:
        self.settled += 1


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def phone() -> Heard:
    return Heard()


@pytest.fixture
def teller(desk: Desk, phone: Heard) -> Iterator[NotifierWorker]:
    found = NotifierWorker(phone, desk.work, desk.settle, desk.told, SOON)
    yield found
    found.end()
    found.join(5)


def test_what_is_there_is_told_and_crossed_off(
    desk: Desk, phone: Heard, teller: NotifierWorker
) -> None:
    desk.add(HOT, LOST)
    teller.wake()
    wait_for(lambda: desk.deliveries == [])
    assert len(phone.batches) == 1
    assert desk.settled == 2, "before it was told, and after"
    assert (teller.health().ok, teller.health().sent) == (True, 2)


def test_what_fails_is_tried_again(
    desk: Desk, phone: Heard, teller: NotifierWorker, caplog: pytest.LogCaptureFixture
) -> None:
    phone.broken = True
    desk.add(HOT)
    teller.wake()
    wait_for(lambda: not teller.health().ok)
    health = teller.health()
    assert (health.reason, health.hint) == ("nobody answers", "look at the network")
    assert health.since is not None
    phone.broken = False
    wait_for(lambda: teller.health().ok)
    wait_for(lambda: desk.deliveries == [])
    assert caplog.text.count("nobody answers") == 1, "a change is logged once"


def test_what_is_not_due_yet_waits(desk: Desk, phone: Heard, teller: NotifierWorker) -> None:
    desk.add(LOST, due=time.time() + 3600)
    desk.add(HOT)
    teller.wake()
    wait_for(lambda: len(phone.told) == 1)
    assert [e.notice.alert.rule for e in desk.deliveries] == ["lost"]


def test_what_becomes_due_is_told_without_a_word_from_anybody(desk: Desk, phone: Heard) -> None:
    desk.add(HOT, due=time.time() + 0.05)
    teller = NotifierWorker(phone, desk.work, desk.settle, desk.told, SOON)
    wait_for(lambda: desk.deliveries == [])
    assert len(phone.told) == 1
    teller.end()
    teller.join(5)


def test_alerts_that_come_within_moments_are_one_message(desk: Desk, phone: Heard) -> None:
    teller = NotifierWorker(phone, desk.work, desk.settle, desk.told, AlertWaits(gather=3600.0))
    desk.add(HOT)
    teller.wake()
    desk.add(LOST, DISK)
    teller.wake()
    teller.end()
    teller.join(20)
    assert [len(batch) for batch in phone.batches] == [3]


def test_one_that_wants_it_hears_again_what_fires(desk: Desk) -> None:
    class Refreshed(Heard):
        refresh_seconds = 0.01

        def __init__(self) -> None:
            super().__init__()
            self.refreshed: list[Sequence[Alert]] = []

        def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
            super().send(notices, firing)
            if not notices:
                self.refreshed.append(firing)

    manager = Refreshed()
    desk.firing = (HOT,)
    teller = NotifierWorker(manager, desk.work, desk.settle, desk.told, SOON)
    wait_for(lambda: len(manager.refreshed) >= 3)
    assert all(list(firing) == [HOT] for firing in manager.refreshed)
    teller.end()
    teller.join(5)


def test_one_that_never_answers_is_seen_to_be_stuck(desk: Desk, phone: Heard) -> None:
    waits = replace(SOON, stuck_notifier=0.0)
    teller = NotifierWorker(phone, desk.work, desk.settle, desk.told, waits)
    assert teller.health().ok
    phone.free.clear()
    desk.add(HOT)
    teller.wake()
    wait_for(phone.entered.is_set)
    health = teller.health()
    assert not health.ok
    assert "has not responded" in (health.reason or "")
    phone.free.set()
    wait_for(lambda: teller.health().ok)
    teller.end()
    teller.join(5)


def test_a_test_passes_by_what_waits(desk: Desk, phone: Heard, teller: NotifierWorker) -> None:
    phone.broken = True
    desk.add(HOT)
    teller.wake()
    wait_for(lambda: not teller.health().ok)
    trial = teller.test(notice(DISK))
    assert isinstance(trial.wait(60), Unavailable)
    phone.broken = False
    assert teller.test(notice(DISK)).wait(60) is None


@pytest.mark.slow
def test_a_test_of_one_that_is_stuck_is_not_waited_for(
    desk: Desk, phone: Heard, teller: NotifierWorker
) -> None:
    phone.free.clear()
    desk.add(HOT)
    teller.wake()
    wait_for(phone.entered.is_set)
    trial = teller.test(notice(DISK))
    assert trial.wait(1.0) is not None
    error = trial.wait(0.01)  # as the second of two that hang: what counts is the time since begun
    assert error is not None
    assert error.reason == "no answer within 1 s"
    phone.free.set()


def test_at_the_end_what_waits_is_tried_once(desk: Desk, phone: Heard) -> None:
    teller = NotifierWorker(phone, desk.work, desk.settle, desk.told, AlertWaits(gather=3600.0))
    desk.add(HOT)
    teller.end()
    teller.join(20)
    assert len(phone.told) == 1
    assert phone.closed
