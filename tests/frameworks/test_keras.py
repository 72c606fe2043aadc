"""The callback in real fits of Keras, with what two loggers recorded."""

import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import mlflow
import numpy as np
import pytest

from andon.callbacks.keras import GpuMonitorCallback
from tests.frameworks.conftest import Lines
from tests.frameworks.trackers import mlflow_values


class SlowBatches(keras.utils.PyDataset):
    """Batches that take 10 ms each."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        time.sleep(0.01)
        return np.ones((4, 8), "float32"), np.ones((4, 1), "float32")


class SlowModel(keras.Sequential):
    """Takes 30 ms for a step; may fail."""

    fails: BaseException | None = None

    def train_step(self, data: Any) -> Any:
        time.sleep(0.03)
        if self.fails is not None:
            raise self.fails
        return super().train_step(data)


@pytest.fixture
def model() -> Any:
    made = SlowModel([keras.Input((8,)), keras.layers.Dense(1)])
    made.compile(loss="mse", run_eagerly=True)
    return made


def test_a_fit_is_recorded_and_told_to_the_loggers(
    state: Path, model: Any, records: Callable[[], list[Lines]], mlflow_database: Path
) -> None:
    mlflow.set_tracking_uri(f"sqlite:///{mlflow_database}")
    callback = GpuMonitorCallback(name="dense", interval_secs=1)
    with mlflow.start_run():
        tracker = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: mlflow.log_metrics(logs, step=epoch)
        )
        table = keras.callbacks.CSVLogger(state / "log.csv")
        history = model.fit(
            SlowBatches(50), epochs=2, validation_data=SlowBatches(2), verbose=0,
            callbacks=[callback, tracker, table],
        )  # fmt: skip
    (lines,) = records()
    begin, end = lines[0], lines[-1]
    events = [line.get("name") for line in lines if line["event"] == "event"]
    assert {"epoch", "validation", "waiting_for_data"} <= set(events)
    last = end["last_values"]
    assert (last["total_steps"], "loss" in last, "val_loss" in last) == (100, True, True)
    assert 0 < last["waiting_for_data_percent"] < 100
    assert end["state"] == "succeeded"
    assert history.history["andon/energy_joules"][-1] > 0
    with (state / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["andon/energy_joules"]) > 0
    metrics, params = mlflow_values(mlflow_database)
    assert {"andon/waiting_share", "andon/throttle_share"} <= set(metrics)
    assert params["andon/run"] == begin["id"]


def test_heat_stops_a_fit_and_a_failed_one_is_ended_by_the_next(
    model: Any, records: Callable[[], list[Lines]]
) -> None:
    callback = GpuMonitorCallback(thermal_threshold=1, action="stop", interval_secs=0.2)
    model.fit(SlowBatches(300), epochs=1, verbose=0, callbacks=[callback])
    model.fails = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    with pytest.raises(RuntimeError):
        model.fit(SlowBatches(3), verbose=0, callbacks=[callback])
    model.fails = None
    model.evaluate(SlowBatches(1), verbose=0, callbacks=[callback])
    again = GpuMonitorCallback(quiet=True)
    model.fit(SlowBatches(2), verbose=0, callbacks=[again, again])
    model.fit(SlowBatches(2), verbose=0, callbacks=[callback.with_thermal_threshold(200)])
    ends = [lines[-1] for lines in records()]
    assert [one["state"] for one in ends] == ["succeeded", "stopped", "succeeded", "succeeded"]
    assert ends[0]["last_values"]["waiting_for_data_percent"] >= 0
    steps = [line["step"] for line in records()[2] if line["event"] == "log" and "step" in line]
    assert max(steps) == 2, "a callback that is listed twice counts once"


def test_samples_and_checkpoints_are_recorded(
    state: Path, model: Any, records: Callable[[], list[Lines]]
) -> None:
    saver = keras.callbacks.ModelCheckpoint(state / "best.weights.h5", save_weights_only=True)
    x, y = np.ones((150, 8), "float32"), np.ones((150, 1), "float32")
    model.fit(x, y, batch_size=4, verbose=0, callbacks=[GpuMonitorCallback(quiet=True), saver])
    (lines,) = records()
    saved = [line["data"] for line in lines if line.get("name") == "checkpoint"]
    assert saved == [{"step": 38}]
    assert (state / "best.weights.h5").exists()
    rates = [line["values"] for line in lines if "samples_per_second" in line.get("values", {})]
    assert rates
    # The last batch has two samples, and on a busy machine a line of its own.
    assert all(1.9 < one["samples_per_second"] / one["steps_per_second"] <= 4.1 for one in rates)
    assert "_should_save_model" not in vars(saver)
