"""A program that is called when an alert comes, and a loop that waits or ends."""

import logging
import sys
from typing import Any, cast

import pytest
from msgspec.structs import replace

import andon
from andon.app.thresholds import rulebook, with_thresholds
from andon.callbacks.cord import AlertFilter, Cord
from andon.callbacks.guard import Guard
from andon.errors import Invalid
from andon.host.clock import clocks
from andon.model.alert import Alert, Level, Phase
from andon.model.device import Snapshot
from andon.sampling.bus import Bus
from andon.settings.resolution import Settings
from andon.testing.mock import MockGpuBackend
from tests.support.waiting import wait_for

COOL, HOT, SEARING = 40, 91, 96  # the mock states no slowdown: told from 90, critical from 95


class Steps:
    """A clock that moves by half a minute with every look."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> tuple[float, float]:
        self.seconds += 30
        return self.seconds, self.seconds


class Feed:
    """Snapshots that a test hands over, one by one."""

    def __init__(self) -> None:
        self._bus, self._now = Bus(), 0.0
        self.session = self._bus.subscribe(1.0, watching=False, size=64)

    def put(self, snapshot: Snapshot) -> None:
        self._now += 1.0
        self._bus.publish(snapshot, self._now)


def at(celsius: int) -> Snapshot:
    return MockGpuBackend().with_device(0, "x").with_temperature(celsius).snapshot(1.0)


def pulled(*temperatures: int, **wanted: Any) -> list[Alert]:
    heard: list[Alert] = []
    cord = Cord(Feed().session, heard.append, AlertFilter(**wanted), clock=Steps())
    for celsius in temperatures:
        cord.take(at(celsius))
    return heard


def test_it_is_called_when_an_alert_fires_becomes_worse_and_is_over() -> None:
    heard = pulled(*[HOT] * 4, *[SEARING] * 2, *[COOL] * 6)
    told = [(alert.rule, alert.level, alert.state) for alert in heard]
    assert told == [
        ("thermal", Level.WARNING, Phase.FIRING),
        ("thermal", Level.CRITICAL, Phase.FIRING),
        ("thermal", Level.CRITICAL, Phase.RESOLVED),
    ]


def test_a_program_can_have_thresholds_of_its_own() -> None:
    def heard(**given: Any) -> list[str]:
        called: list[Alert] = []
        book = rulebook(with_thresholds(Settings(), given))
        cord = Cord(Feed().session, called.append, AlertFilter(), book, clock=Steps())
        for _ in range(4):
            cord.take(at(COOL))
        return [alert.rule for alert in called]

    assert heard() == []
    assert heard(thermal_celsius=35) == ["thermal"]
    assert heard(thermal_celsius="off", thermal_notify_celsius=35) == []


def test_thresholds_are_added_to_those_of_the_settings() -> None:
    settings = Settings(alerts_figures=(("thermal_celsius", 70.0), ("memory_percent", 50.0)))
    found = rulebook(with_thresholds(settings, {"thermal_celsius": 75})).thresholds
    assert (found.thermal_celsius, found.memory_percent) == (75, 50)
    assert with_thresholds(settings, {}) is settings


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"thermal": 75}, "did you mean thermal_celsius"),
        ({"thermal_celsius": "hot"}, "is not a number"),
        ({"thermal_celsius": 1e6}, "more than 150"),
    ],
)
def test_a_wrong_threshold_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        with_thresholds(Settings(), given)


def test_a_level_that_is_not_wanted_is_not_told_and_neither_is_its_end() -> None:
    assert pulled(*[HOT] * 4, *[COOL] * 6, level="critical") == []


@pytest.mark.parametrize("wanted", [{"rules": ["fan"]}, {"devices": [7]}, {"devices": ["GPU-x"]}])
def test_other_rules_and_other_devices_are_left_out(wanted: dict[str, Any]) -> None:
    assert pulled(*[HOT] * 4, **wanted) == []


@pytest.mark.parametrize("wanted", [{"devices": [0]}, {"devices": ["MOCK-0"]}])
def test_a_device_is_named_by_its_index_or_its_uuid(wanted: dict[str, Any]) -> None:
    assert len(pulled(*[HOT] * 4, **wanted)) == 1


@pytest.mark.parametrize("wanted", [{"level": "fatal"}, {"rules": ["themal"]}])
def test_what_does_not_exist_is_refused(wanted: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        AlertFilter(**wanted)


def test_a_call_that_fails_does_not_end_the_watching(caplog: pytest.LogCaptureFixture) -> None:
    heard = []

    def fails(alert: Alert) -> None:
        heard.append(alert)
        raise RuntimeError("no")

    cord = Cord(Feed().session, fails, clock=Steps())
    for celsius in [*[HOT] * 4, *[SEARING] * 2]:
        cord.take(at(celsius))
    assert len(heard) == 2
    assert "the callback for an alert failed" in caplog.text


def test_a_snapshot_that_cannot_be_evaluated_is_logged_once_and_the_next_one_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Meanwhile nothing is firing, so that no loop waits for what may be over."""
    feed, heard = Feed(), list[Alert]()
    cord = Cord(feed.session, heard.append, clock=Steps())
    for _ in range(4):
        cord.take(at(SEARING))
    assert cord.firing()

    cord.start()
    for _ in range(3):
        feed.put(replace(at(SEARING), devices=cast("Any", (None,))))
    assert cord.wait_until_calm(AlertFilter(), 20)
    wait_for(lambda: feed.session.get(0) is None)
    for _ in range(4):
        feed.put(at(SEARING))
    wait_for(cord.firing)
    cord.stop()
    assert caplog.text.count("evaluating alerts failed") == 1


def guard(count: int, temperatures: list[int], action: Any = "pause") -> tuple[Guard[int], Cord]:
    wanted = AlertFilter("critical")
    cord = Cord(Feed().session, wanted=wanted, clock=Steps())
    for celsius in temperatures:
        cord.take(at(celsius))
    return Guard(range(count), cord, wanted, action, 60), cord


def test_a_healthy_loop_gets_every_batch() -> None:
    guarded, _ = guard(5, [COOL] * 3)
    assert (list(guarded), len(guarded), guarded.alert) == ([0, 1, 2, 3, 4], 5, None)


def test_a_loop_stops_between_two_batches_and_says_why() -> None:
    guarded, cord = guard(5, [COOL])
    done = []
    for batch in guarded:
        done.append(batch)
        for _ in range(3):
            cord.take(at(COOL if batch == 0 else SEARING))
        guarded._action = "stop"
    assert done == [0, 1]
    assert guarded.stopped
    assert guarded.alert is not None
    assert guarded.alert.rule == "thermal"
    assert list(guarded) == []


def test_a_loop_waits_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "andon")
    feed = Feed()
    wanted = AlertFilter("critical")
    cord = Cord(feed.session, wanted=wanted, clock=Steps()).start()
    for _ in range(3):
        feed.put(at(SEARING))
    wait_for(cord.firing)  # until the thread has taken them
    guarded = Guard([1, 2], cord, wanted, "pause", 60)
    for _ in range(8):
        feed.put(at(COOL))
    assert list(guarded) == [1, 2]
    assert not cord.firing()
    assert guarded.alert is not None
    assert "pausing the loop: GPU 0 is too hot" in caplog.text
    assert "the alert is resolved" in caplog.text
    guarded.close()


def test_a_pause_is_refused_where_waiting_does_not_help() -> None:
    with pytest.raises(Invalid, match="pausing does not help against memory"):
        andon.guarded([1], rules=("memory", "thermal"))


def test_a_pause_ends_after_its_longest_time() -> None:
    guarded, _ = guard(2, [SEARING] * 3)
    guarded._longest = 0.01
    assert list(guarded) == [0, 1]
    assert guarded.paused_seconds > 0


def test_a_function_is_called_once_for_each_alert_and_the_loop_goes_on() -> None:
    heard: list[Alert] = []
    guarded, _ = guard(4, [SEARING] * 3, heard.append)
    assert list(guarded) == [0, 1, 2, 3]
    assert [alert.rule for alert in heard] == ["thermal"]


def test_what_the_function_raises_reaches_the_loop() -> None:
    def leave(alert: Alert) -> None:
        raise KeyboardInterrupt

    guarded, _ = guard(4, [SEARING] * 3, leave)
    with pytest.raises(KeyboardInterrupt):
        list(guarded)


def test_an_action_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Invalid):
        guard(1, [], "explode")


def test_nothing_that_can_be_read_is_no_reason_to_wait() -> None:
    guarded, _ = guard(3, [])
    assert list(guarded) == [0, 1, 2]


def test_the_steady_clock_does_not_go_back() -> None:
    first, second = clocks(), clocks()
    assert second[1] >= first[1]


def test_a_function_that_exits_leaves_the_alerts_as_they_are() -> None:
    called: list[Alert] = []
    cord = Cord(Feed().session, lambda _: sys.exit(3), AlertFilter(), clock=Steps())
    cord._calls.add(called.append)
    for _ in range(4):
        cord.take(at(HOT))
    assert [alert.rule for alert in called] == ["thermal"]
