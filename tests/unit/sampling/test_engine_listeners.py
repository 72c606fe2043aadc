"""Every listener is called, whatever another one does; a failure is logged once with a count."""

import logging

import pytest

from andon.failures.listeners import Listeners
from andon.failures.log import FailureLog
from tests.support.clocks import Clock

TEXT = "a listener failed; the others continue"


class Heard:
    """What was called, in order."""

    def __init__(self) -> None:
        self.clock, self.calls = Clock(), list[tuple[str, int]]()
        self.failures = FailureLog("andon.test", TEXT, self.clock)
        self.listeners: Listeners[[int]] = Listeners(self.failures)

    def add(self, name: str, fails: type[Exception] | None = None) -> None:
        def called(value: int) -> None:
            self.calls.append((name, value))
            if fails is not None:
                raise fails(f"value {value}")

        self.listeners.add(called)


def test_one_that_fails_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    heard.add("first")
    heard.add("broken", RuntimeError)
    heard.add("last")
    for value in (1, 2):
        heard.listeners.notify(value)
    assert heard.calls == [(name, n) for n in (1, 2) for name in ("first", "broken", "last")]
    assert caplog.messages == [TEXT]
    assert "RuntimeError: value 1" in caplog.text, "the traceback says where"


def test_a_kind_is_logged_once_a_minute_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    heard.add("broken", RuntimeError)
    for value in range(5):
        heard.listeners.notify(value)
    heard.clock.now += 60.0
    heard.listeners.notify(6)
    assert caplog.messages == [TEXT, f"{TEXT} (5 times)"]
    assert heard.failures.count == 6


def test_a_brief_log_shows_the_error_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """For commands, whose log is the terminal."""
    caplog.set_level(logging.INFO)
    failures = FailureLog("andon.test", "sampling failed", Clock(), brief=True)
    failures.add(ValueError("no"))
    assert caplog.messages == ["sampling failed: ValueError('no')"]
    assert "Traceback" not in caplog.text


def test_another_kind_of_error_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    heard.add("one", RuntimeError)
    heard.add("other", ValueError)
    for value in range(3):
        heard.listeners.notify(value)
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 2


def test_who_left_is_called_no_more_and_another_with_the_same_function_is() -> None:
    calls: list[int] = []
    listeners: Listeners[[int]] = Listeners(FailureLog("andon.test", TEXT))
    leave, _ = listeners.add(calls.append), listeners.add(calls.append)
    listeners.notify(1)
    leave()
    leave()
    listeners.notify(2)
    assert calls == [1, 1, 2]


def test_who_leaves_while_being_called_is_not_missed_by_the_others() -> None:
    calls: list[str] = []
    listeners: Listeners[[]] = Listeners(FailureLog("andon.test", TEXT))
    assert not listeners
    leaving = [listeners.add(lambda: leaving[0]())]
    listeners.add(lambda: calls.append("other"))
    assert listeners
    listeners.notify()
    listeners.notify()
    assert calls == ["other", "other"]
