"""Sends due notices through one notifier in its own thread: a hanging one delays no other."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from andon.alerts.rules.outbox import Delivery
from andon.alerts.waits import USUAL, AlertWaits
from andon.errors import AndonError, Unavailable
from andon.failures.log import FailureLog
from andon.failures.retrying import Retrying, RetryTexts
from andon.model.alert import Alert, Notice
from andon.ports import Notifier
from andon.units import human_seconds

log = logging.getLogger("andon.notifier")

IDLE_SECONDS = 30.0  # quiet hours end by the wall clock, which may be changed meanwhile


class NotifierWork(NamedTuple):
    """What one notifier has to send now, and when its next delivery is due."""

    deliveries: tuple[Delivery, ...]
    firing: tuple[Alert, ...]
    next_due: float | None  # UTC


class NotifierHealth(Struct, frozen=True):
    """The health of one notifier."""

    name: str
    ok: bool = True
    reason: str | None = None
    hint: str | None = None
    since: float | None = None
    """When it started to fail; UTC."""
    sent: int = 0
    last_sent: float | None = None


class TestMessage:
    """A test message, requested by a person who waits for the result."""

    def __init__(self, notice: Notice) -> None:
        self.notice = notice
        self._began = time.monotonic()
        self._done = threading.Event()
        self._trouble: AndonError | None = None

    def answer(self, trouble: AndonError | None) -> None:
        self._trouble = trouble
        self._done.set()

    def wait(self, seconds: float) -> AndonError | None:
        """Waits for the result; returns the error, or None."""
        if not self._done.wait(seconds):
            waited = human_seconds(time.monotonic() - self._began)
            return Unavailable(f"no answer within {waited}", hint="it may still arrive")
        return self._trouble


class NotifierWorker:
    """Sends due deliveries and reports what was sent; failures are retried with back-off."""

    def __init__(
        self,
        notifier: Notifier,
        work: Callable[[str], NotifierWork],
        settle: Callable[[], None],
        delivered: Callable[[Sequence[Delivery]], None],
        waits: AlertWaits = USUAL,
    ) -> None:
        """`settle` waits until what is about to be sent has been stored."""
        self.name = notifier.name
        self._notifier, self._work, self._settle, self._delivered = (
            notifier,
            work,
            settle,
            delivered,
        )
        self._waits = waits
        self._refresh_seconds: float | None = getattr(notifier, "refresh_seconds", None)
        self._refreshed = time.monotonic()
        self._sent = 0
        self._last_sent: float | None = None
        self._unexpected = FailureLog(
            "andon.notifier", f"sending through {self.name} failed; continuing"
        )
        texts = RetryTexts(
            lambda reason: f"notifier {self.name}: {reason}",
            lambda _lasted: f"notifier {self.name} works again",
        )
        self._retrying = Retrying(log.warning, texts, _without_text, waits.back_off)
        self._tests: list[TestMessage] = []
        self._changed = threading.Condition()
        self._woken = self._ended = False
        self._thread = threading.Thread(target=self._loop, name=f"notify {self.name}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Makes the thread look for new deliveries."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def test(self, notice: Notice) -> TestMessage:
        """Sends a test message at once."""
        test = TestMessage(notice)
        with self._changed:
            self._tests.append(test)
            self._changed.notify_all()
        return test

    def health(self) -> NotifierHealth:
        failures = self._retrying.failures
        seconds = self._retrying.stuck_seconds(self._waits.stuck_notifier)
        found = NotifierHealth(self.name, sent=self._sent, last_sent=self._last_sent)
        trouble = failures.trouble if seconds is None else _stuck(seconds)
        if trouble is None:
            return found
        since = time.time() - (seconds or 0.0) if failures.since is None else failures.since
        hint = trouble.hint or None
        return replace(found, ok=False, reason=trouble.reason, hint=hint, since=since)

    def end(self) -> None:
        """Finishes the current message, tries pending ones once, and stops; does not block."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def join(self, seconds: float) -> None:
        """Waits this long for the end; then the current message is aborted."""
        self._thread.join(max(0.0, seconds))
        self._notifier.close()

    # The thread.

    def _loop(self) -> None:
        while True:
            try:
                if self._turn():
                    return
            except Exception as exc:  # noqa: BLE001 - logged and shown, and tried again
                self._unexpected.add(exc)
                self._retrying.failed(Unavailable("an unexpected error occurred in andon"))
                if self._wait_for_retry():
                    return

    def _turn(self) -> bool:
        """Waits, then sends what is due; returns True at the end."""
        tests, ended = self._wait()
        for test in tests:
            test.answer(self._try((test.notice,), self._work(self.name).firing))
        work = self._work(self.name)
        if work.deliveries and not ended:
            self._gather()
            work = self._work(self.name)
        if (work.deliveries and self._may_try()) or self._refresh_due():
            self._send(work)
        return ended

    def _wait(self) -> tuple[list[TestMessage], bool]:
        with self._changed:
            seconds = self._wait_seconds()
            if not self._tests and not self._ended and seconds > 0 and not self._woken:
                self._changed.wait(seconds)
            tests, self._tests, self._woken = self._tests, [], False
            return tests, self._ended

    def _wait_seconds(self) -> float:
        """Returns how long to wait for work, unless woken."""
        work, now = self._work(self.name), time.monotonic()
        seconds = IDLE_SECONDS
        if work.next_due is not None:
            retry = self._retrying.due - now
            seconds = min(seconds, max(work.next_due - time.time(), retry))
        if self._refresh_seconds is not None:
            seconds = min(seconds, self._refreshed + self._refresh_seconds - now)
        return max(0.0, seconds)

    def _gather(self) -> None:
        end = time.monotonic() + self._waits.gather
        with self._changed:
            while not self._ended and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)

    def _may_try(self) -> bool:
        return time.monotonic() >= self._retrying.due

    def _refresh_due(self) -> bool:
        if self._refresh_seconds is None:
            return False
        return time.monotonic() >= self._refreshed + self._refresh_seconds

    def _send(self, work: NotifierWork) -> None:
        self._settle()
        notices = [delivery.notice for delivery in work.deliveries]
        if self._try(notices, work.firing) is None:
            self._delivered(work.deliveries)
            self._sent += len(notices)
            self._settle()  # before the next one: a kill in between repeats at most one message

    def _try(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> AndonError | None:
        self._refreshed = time.monotonic()
        trouble = self._retrying.attempt(lambda: self._notifier.send(notices, firing))
        if trouble is None:
            self._last_sent = time.time() if notices else self._last_sent
            self._retrying.succeeded()
        return trouble

    def _wait_for_retry(self) -> bool:
        """Waits after an error of our own, which may happen again at once; returns True at the
        end."""
        with self._changed:
            seconds = max(0.0, self._retrying.due - time.monotonic())
            return self._changed.wait_for(lambda: self._ended, seconds)


def _without_text(error: Exception) -> AndonError:
    """Returns the error without its text, which may contain a secret of third-party code."""
    return Unavailable(f"it failed unexpectedly ({type(error).__name__})")


def _stuck(seconds: float) -> AndonError:
    return Unavailable(
        f"it has not responded for {human_seconds(seconds)}",
        hint="check the connection to it; restart andon if it never responds",
    )
