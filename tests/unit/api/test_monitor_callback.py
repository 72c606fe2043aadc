"""GpuMonitorCallback: the kept alerts, when they begin; and a loop that pauses or stops."""

import logging
import sys
import threading
from collections.abc import Callable
from traceback import format_exception
from types import SimpleNamespace
from typing import Any

import pytest

import andon
from andon.api.compat.alerts import GpuAlert, MemoryPressure, ThermalThrottling
from andon.errors import Invalid
from andon.model.device import Snapshot
from tests.support.sharing_parts import gpu


class Quiet(andon.GpuMonitorCallback):
    """Its snapshots are handed to it, and nothing is recorded."""

    def begin(self) -> "Quiet":
        self._uuids = frozenset({"GPU-0"})
        return self


def heat(celsius: int, **more: Any) -> Snapshot:
    mine = gpu(0, busy=50, temperature_celsius=celsius, **more)
    return Snapshot("n", 1.0, devices=(mine, gpu(1, busy=50, temperature_celsius=99)))


def test_an_alert_is_told_when_it_begins_and_not_again() -> None:
    told: list[GpuAlert] = []
    monitor = Quiet().with_interval_secs(10).with_thermal_threshold(80).on_alert(told.append)
    monitor.begin()
    for celsius in (79, 85, 86, 70, 90):
        monitor.take(heat(celsius))
    assert told == [ThermalThrottling(0, 85, 80.0), ThermalThrottling(0, 90, 80.0)]
    assert (told[0].severity(), "too hot: 85 °C" in told[0].message()) == (80, True)
    assert monitor.alerts() == [ThermalThrottling(0, 90, 80.0)]


def test_keywords_do_the_same() -> None:
    told: list[GpuAlert] = []
    monitor = Quiet(interval_secs=5, thermal_threshold=60, on_alert=told.append).begin()
    monitor.take(heat(61, used_gib=79))
    assert [type(alert) for alert in told] == [ThermalThrottling, MemoryPressure]


@pytest.mark.parametrize(
    "make", [lambda: Quiet(action="stop"), lambda: Quiet().on_alert(lambda alert: "stop")]
)
def test_a_loop_can_be_stopped(make: Callable[[], Quiet]) -> None:
    monitor = make()
    assert monitor.step()
    monitor.take(heat(95))
    assert (monitor.step(), monitor.stopped) == (False, True)


def test_a_loop_pauses_until_it_is_cool(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "andon")
    monitor = Quiet(action="pause").begin()
    monitor.take(heat(95))
    cooled = threading.Timer(0.05, monitor.take, (heat(60),))
    cooled.start()
    assert monitor.step()
    cooled.join()
    assert monitor.paused_seconds > 0
    assert "pausing the loop: GPU 0 is too hot" in caplog.text
    assert "the alert is over" in caplog.text
    assert monitor.step(), "it does not pause again"


def test_a_pause_ends_after_a_while_and_other_alerts_pause_nothing() -> None:
    monitor = Quiet(action="pause", longest_pause_seconds=0.01).begin()
    monitor.take(heat(50, used_gib=79))
    assert (monitor.step(), monitor.paused_seconds) == (True, 0.0)
    monitor.take(heat(95))
    assert monitor.step()
    assert monitor.paused_seconds > 0


def test_only_heat_and_power_pause_a_loop(caplog: pytest.LogCaptureFixture) -> None:
    """A32: a program that held the memory itself waited for it to become free."""
    caplog.set_level(logging.WARNING, "andon")
    monitor = Quiet(longest_pause_seconds=60).on_alert(lambda alert: "pause").begin()
    monitor.take(heat(50, used_gib=79))
    assert (monitor.step(), monitor.paused_seconds) == (True, 0.0)
    assert "not pausing the loop, which would not help: The memory of GPU 0" in caplog.text
    hungry = heat(50, power_watts=700.0, power_limit_watts=700.0)
    for found, calm in ((heat(95), heat(50)), (hungry, heat(50))):
        before = monitor.paused_seconds
        monitor.take(found)
        over = threading.Timer(0.02, monitor.take, (calm,))
        over.start()
        assert monitor.step()
        over.join()
        assert monitor.paused_seconds > before


def test_callbacks_are_offered_by_their_package() -> None:
    """A18: `from andon.callbacks import GpuMonitorCallback` failed."""
    from andon import callbacks
    from andon.callbacks import GpuMonitorCallback

    assert GpuMonitorCallback is andon.GpuMonitorCallback
    assert [getattr(callbacks, name) for name in dir(callbacks)] == [
        getattr(andon, name) for name in dir(callbacks)
    ]
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        callbacks.Nothing  # noqa: B018


def test_a_callback_that_fails_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fails(alert: GpuAlert) -> None:
        raise ValueError("oh")

    monitor = Quiet().on_alert(fails).begin()
    monitor.take(heat(95))
    assert monitor.step()
    assert "the callback for an alert failed" in caplog.text


def test_an_action_that_is_none_is_refused() -> None:
    with pytest.raises(Invalid) as raised:
        andon.GpuMonitorCallback(action="explode")  # type: ignore[arg-type]
    assert 'hint: "pause" or "stop"' in "".join(format_exception(raised.value))
    for celsius in (float("nan"), float("inf"), 0, -5):
        with pytest.raises(Invalid, match="is not a threshold"):
            andon.GpuMonitorCallback(thermal_threshold=celsius)


def test_a_run_that_cannot_be_watched_is_ended() -> None:
    """`with` does not end what it could not enter."""
    ends: list[BaseException | None] = []

    class Unwatched(andon.GpuMonitorCallback):
        def _new_run(self) -> Any:
            return SimpleNamespace(id=None, begin=lambda: None, uuids=frozenset(), end=ends.append)

        def _follow(self) -> None:
            raise Invalid("0 is not an interval")

    with pytest.raises(Invalid, match="not an interval"), Unwatched():
        pass
    assert [type(end) for end in ends] == [Invalid]


class Table:
    """As one of pandas: what it is equal to is another table, which is neither true nor false."""

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("failing", [lambda _: Table(), lambda _: sys.exit(3)])
def test_whatever_a_function_does_the_others_are_heard(failing: Callable[[GpuAlert], Any]) -> None:
    monitor = Quiet(thermal_threshold=80).on_alert(failing).on_alert(lambda _: "stop").begin()
    monitor.take(heat(95))
    assert monitor.stopped
