"""The steps of a training loop: what is counted, what waits for data, what trackers get."""

import copy
import pickle
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from andon.api import watch as library
from andon.callbacks.rules.steps import (
    StepClock,
    StepRates,
    shapes_of,
    size_of,
    tracked_values,
)
from andon.callbacks.training import TrainingMonitor
from andon.errors import Invalid
from andon.model.run.record import RunEvent
from tests.support.replaced import fails


def tensor(*shape: int) -> Any:
    return SimpleNamespace(shape=shape)


def test_waiting_is_from_the_end_of_a_step_to_the_next() -> None:
    clock = StepClock()
    for number in range(4):
        clock.begin(10.0 * number, number)
        clock.end(10.0 * number + 7, number)
    assert (clock.steps, clock.waited_seconds) == (4, 9.0)
    assert clock.seconds(37.0) == 37.0
    assert clock.waiting_share(37.0) == pytest.approx(9 / 37)


def test_validation_and_checkpoints_are_no_waiting() -> None:
    clock = StepClock()
    clock.begin(0.0, 0)
    clock.end(5.0, 0)
    clock.interrupt(6.0)
    clock.resume(100.0)
    clock.begin(101.0, 1)
    clock.end(104.0, 1)
    assert clock.waited_seconds == 1.0
    assert clock.seconds(104.0) == 10.0


def test_the_end_of_a_step_may_come_after_the_next_has_begun_and_twice() -> None:
    """Keras reports ends in another thread; a callback that is listed twice reports each twice."""
    clock = StepClock()
    clock.begin(0.0, 0)
    clock.begin(1.0, 1)
    assert clock.end(1.5, 0)
    assert not clock.end(1.5, 0)
    clock.begin(2.0, 2)
    assert (clock.steps, clock.waited_seconds) == (1, 0.0)
    assert StepClock().waiting_share(1.0) is None


def test_rates_are_since_the_last_line() -> None:
    clock, rates = StepClock(), StepRates()
    assert rates.take(clock, 0.0) == {}
    clock.begin(0.0, 0)
    clock.end(1.0, 0)
    clock.samples, clock.tokens = 8, 64
    assert rates.take(clock, 2.0) == {
        "steps_per_second": 0.5, "samples_per_second": 4.0, "tokens_per_second": 32.0,
    }  # fmt: skip
    assert rates.take(clock, 3.0) == {}


@pytest.mark.parametrize(
    ("batch", "size", "shapes"),
    [
        ({"input_ids": tensor(4, 128), "labels": tensor(4)}, (4, 512),
         {"input_ids": [4, 128], "labels": [4]}),
        ([tensor(16, 3, 8, 8), tensor(16)], (16, 0), {"0": [16, 3, 8, 8], "1": [16]}),
        (tensor(2, 5), (2, 0), {"0": [2, 5]}),
        ({"name": "x"}, (0, 0), {}),
        (None, (0, 0), {}),
        (tensor(), (0, 0), {}),
    ],
)  # fmt: skip
def test_a_batch_tells_its_size_by_shapes_alone(batch: Any, size: Any, shapes: Any) -> None:
    assert size_of(batch) == size
    assert shapes_of(batch) == shapes


def test_trackers_get_what_is_known_of_all_devices() -> None:
    use = {
        "throttle_share": 0.2, "energy_joules": 10.0, "peak_memory_bytes": 5,
        "utilization_percent": {"mean": 80.0},
    }  # fmt: skip
    other = {
        **use, "throttle_share": None, "energy_joules": None, "peak_memory_bytes": 7,
        "utilization_percent": {"mean": None},
    }  # fmt: skip
    assert tracked_values([use, use], 0.1, 2) == {
        "throttle_share": 0.2, "energy_joules": 20.0, "waiting_share": 0.1,
        "memory_peak_bytes": 7.0 - 2, "alerts_firing": 2.0, "utilization_percent": 80.0,
    }  # fmt: skip
    assert "energy_joules" not in tracked_values([use, other], None, 0)
    assert tracked_values([], None, 0) == {}


def test_a_copy_has_the_settings_and_no_run() -> None:
    monitor = TrainingMonitor(interval_secs=3, name="fit", action="pause", trackers="all")
    monitor.with_thermal_threshold(70).on_alert(print)
    for made in (copy.deepcopy(monitor), pickle.loads(pickle.dumps(monitor))):
        assert made._keywords() == monitor._keywords()
        assert made._calls == [print]
        assert made.run.id is None


def test_bad_input_is_refused() -> None:
    with pytest.raises(Invalid, match="'some' is not a choice"):
        TrainingMonitor(trackers="some")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'intervall'"):
        TrainingMonitor(intervall=3)


def test_a_tracker_gets_nothing_that_it_has() -> None:
    found = {"waiting_share": 0.1, "utilization_percent": 80.0}
    for trackers, monitored, names in (
        ("missing", True, {"andon/waiting_share"}),
        ("missing", False, {"andon/waiting_share", "andon/utilization_percent"}),
        ("all", True, {"andon/waiting_share", "andon/utilization_percent"}),
        ("none", False, set()),
    ):
        monitor = TrainingMonitor(trackers=trackers)  # type: ignore[arg-type]
        monitor._values = found
        assert set(monitor.values(monitored=monitored)) == names
    assert "andon/waiting_share" not in TrainingMonitor().values({"andon/waiting_share": 7})


def test_an_error_without_a_text_ends_the_record_of_a_fit() -> None:
    class Mine(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    monitor = TrainingMonitor(quiet=True)
    monitor._explain(Mine())
    monitor._explain(RuntimeError("CUDA out of memory"))
    assert [line.name for line in monitor._queue if isinstance(line, RunEvent)] == ["out_of_memory"]


class Hostile:
    """A batch or a table of values of a program's own class."""

    @property
    def shape(self) -> Any:
        raise RuntimeError("no shape")

    def items(self) -> Any:
        raise RuntimeError("no items")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no attributes")


def test_a_batch_of_a_class_of_its_own_costs_its_size_alone() -> None:
    for batch in (Hostile(), [Hostile()], tensor()):
        assert size_of(batch) == (0, 0)
        assert shapes_of(batch) == {}


def test_a_copy_can_be_made_whatever_the_parameters_hold() -> None:
    given = {"lr": 0.1, "lock": threading.Lock(), "loss": lambda: 0}
    made = pickle.loads(pickle.dumps(copy.deepcopy(TrainingMonitor(params=given))))
    assert made._keywords()["params"]["lr"] == 0.1


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), Invalid("no setting")])
def test_a_monitor_that_cannot_start_costs_the_record_alone(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fails(monkeypatch, library, "shared", error)
    monitor = TrainingMonitor()
    monitor.fit_begins(10)
    monitor.step_begins(0)
    monitor.step_ends(0)
    monitor.logged(0, Hostile())  # type: ignore[arg-type]
    assert monitor.hold() is False
    monitor.end(ValueError("the program's own"))
    assert str(error) in caplog.text
    assert monitor.run.id is None
