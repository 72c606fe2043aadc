"""The callback in real fits of Lightning, with what three trackers recorded."""

import copy
import os
import pickle
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.loggers import CSVLogger, MLFlowLogger, TensorBoardLogger, WandbLogger

from andon.callbacks.lightning import GpuMonitorCallback
from tests.frameworks.conftest import Lines
from tests.frameworks.trackers import mlflow_values, tensorboard_values, wandb_values
from tests.support.waiting import wait_for

SENT = {"throttle_share", "energy_joules", "waiting_share", "alerts_firing"}
MONITORED = {"memory_peak_bytes", "utilization_percent"}


class SlowModel(BoringModel):
    """Takes its time for a step, and for a batch; may fail at a step."""

    def __init__(self, fails: BaseException | None = None, step_seconds: float = 0.03) -> None:
        super().__init__()
        self.fails, self.step_seconds = fails, step_seconds

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        time.sleep(self.step_seconds)
        if self.fails is not None and batch_idx == 5:
            raise self.fails
        out = super().training_step(batch, batch_idx)
        self.log("group/loss", out["loss"])
        self.log("andon/mine", float("nan"))
        return out

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(SlowData(32, 1024), batch_size=4)


class SlowData(RandomDataset):
    """Takes 2 ms for each item."""

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.002)
        return super().__getitem__(index)


def fit(callback: Any, model: Any = None, **more: Any) -> lightning.Trainer:
    usual = {
        "accelerator": "cpu", "devices": 1, "max_epochs": 1, "limit_train_batches": 30,
        "limit_val_batches": 2, "logger": False, "log_every_n_steps": 5,
        "enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False,
    }  # fmt: skip
    trainer = lightning.Trainer(callbacks=[callback], **{**usual, **more})
    trainer.fit(model or SlowModel())
    return trainer


def named(lines: Lines, name: str) -> Lines:
    return [line["data"] for line in lines if line.get("name") == name and "data" in line]


def test_a_fit_is_recorded_and_told_to_the_trackers(
    state: Path,
    records: Callable[[], list[Lines]],
    mlflow_database: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    callback = GpuMonitorCallback(name="boring", params={"lr": 0.1}, interval_secs=1)
    callback = pickle.loads(pickle.dumps(copy.deepcopy(callback)))
    loggers = [
        TensorBoardLogger(state / "tb"),
        MLFlowLogger(tracking_uri=f"sqlite:///{mlflow_database}", artifact_location=str(state)),
        WandbLogger(save_dir=state, offline=True),
    ]
    fit(callback, max_epochs=2, limit_train_batches=40, logger=loggers, enable_checkpointing=True)
    (lines,) = records()
    begin, end = lines[0], lines[-1]
    assert (begin["name"], begin["kind"], begin["params"]) == ("boring", "callback", {"lr": 0.1})
    assert (end["state"], end["samples"] >= 2) == ("succeeded", True)
    assert [one["number"] for one in named(lines, "epoch")] == [0, 1]
    assert len(named(lines, "validation")) == 2
    assert named(lines, "checkpoint")
    (waited,) = named(lines, "waiting_for_data")
    assert 0 < waited["share"] < 1
    last = end["last_values"]
    assert (last["total_steps"], "group/loss" in last) == (80, True)
    assert last["samples_per_second"] == pytest.approx(4 * last["steps_per_second"])
    assert "nan" in str(named(lines, "not_finite"))
    steps = [line for line in lines if "steps_per_second" in line.get("values", {})]
    assert len(steps) <= end["duration_seconds"] + 2, "thinned to one a second"
    error = capsys.readouterr().err
    assert f"andon: run {begin['id']} · 2 GPUs · " in error
    assert f"waited for data {100 * waited['share']:.0f} %" in error
    assert f"andon runs show {begin['id']}" in error

    everything = {f"andon/{name}" for name in SENT | MONITORED}
    seen = tensorboard_values(state / "tb")
    assert everything <= set(seen)
    assert (
        0
        < seen["andon/energy_joules"]
        <= sum(one["energy_joules"] for one in end["summary"].values())
    )
    metrics, params = mlflow_values(mlflow_database)
    assert everything <= set(metrics)
    assert params["andon/run"] == begin["id"]
    loggers[2].experiment.finish()
    wait_for(lambda: wandb_values(state)[0])  # its own process writes, and may be late
    history, config = wandb_values(state)
    assert {name for name in history if name.startswith("andon/")} == {
        f"andon/{name}" for name in SENT
    } | {"andon/mine"}, "what its system monitor has is left out; the user's own is kept"
    assert begin["id"] in str(config)


def test_it_is_used_again_after_an_interrupt_an_error_and_validation_alone(
    records: Callable[[], list[Lines]],
) -> None:
    callback = GpuMonitorCallback(quiet=True)
    trainer = fit(callback, limit_train_batches=3)
    trainer.validate(SlowModel())
    assert len(records()) == 1
    with pytest.raises(ValueError, match="oh"):
        fit(callback, SlowModel(ValueError("oh")))
    with pytest.raises(RuntimeError):
        fit(callback, SlowModel(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises((SystemExit, KeyboardInterrupt)):
        fit(callback, SlowModel(KeyboardInterrupt()))
    signal.signal(signal.SIGINT, before)
    found = [(lines[-1]["state"], lines[-1]["message"]) for lines in records()]
    assert [state for state, _ in found] == [
        "succeeded", "failed", "device_out_of_memory", "stopped"
    ]  # fmt: skip
    (oom,) = named(records()[2], "out_of_memory")
    assert oom == {"step": 5, "batch_shape": {"0": [4, 32]}}


class AwayLogger(CSVLogger):
    """A tracker whose server is away when it gets andon's values; loaders are forked meanwhile."""

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        if any(name.startswith("andon/") and name != "andon/mine" for name in metrics):
            raise ConnectionError("the tracker is away")
        super().log_metrics(metrics, step)

    def log_hyperparams(self, params: Any = None) -> None:
        if "andon/run" in (params or {}):
            raise ConnectionError("the tracker is away")


class ForkedModel(SlowModel):
    """Has a data loader with two processes."""

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(SlowData(32, 1024), batch_size=4, num_workers=2)


def test_a_tracker_that_is_away_and_forked_loaders_stop_no_fit(
    state: Path, records: Callable[[], list[Lines]]
) -> None:
    trainer = fit(GpuMonitorCallback(interval_secs=1), ForkedModel(), logger=AwayLogger(state))
    assert trainer.global_step == 30
    (lines,) = records()
    assert [line["event"] for line in lines].count("end") == 1
    assert lines[-1]["state"] == "succeeded"


@pytest.mark.parametrize("action", ["stop", "pause"])
def test_heat_stops_or_pauses_a_fit(action: Any, records: Callable[[], list[Lines]]) -> None:
    callback = GpuMonitorCallback(
        thermal_threshold=1, action=action, interval_secs=0.2, longest_pause_seconds=0.3
    )
    trainer = fit(callback, limit_train_batches=60)
    (lines,) = records()
    assert (trainer.global_step < 60) == (action == "stop")
    assert bool(named(lines, "paused")) == (action == "pause")
    assert lines[-1]["state"] == "succeeded"


def test_ranks_pause_and_stop_together(state: Path, records: Callable[[], list[Lines]]) -> None:
    """Only rank 0 is told: both end at the same step, and rank 0 alone samples."""

    def tell(alert: object) -> str | None:
        return "stop" if os.environ.get("LOCAL_RANK", "0") == "0" else None

    callback = GpuMonitorCallback(thermal_threshold=1, on_alert=tell, interval_secs=0.5)
    fit(callback, devices=2, strategy="ddp_fork", limit_train_batches=400)
    first, second = sorted(records(), key=lambda lines: lines[0]["rank"])
    assert first[0]["group"] == second[0]["group"]
    assert (first[0]["world_size"], second[0]["rank"]) == (2, 1)
    assert first[-1]["samples"] > 0
    assert "local rank 0 samples" in second[-1]["no_samples_reason"]
    steps = [[line["step"] for line in lines if "step" in line][-1] for lines in (first, second)]
    assert steps[0] == steps[1] < 400
