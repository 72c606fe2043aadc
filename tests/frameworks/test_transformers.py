"""The callback in real trainings of Transformers' Trainer, with what two trackers recorded."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import pytest
import torch
from accelerate.state import AcceleratorState
from transformers import Trainer, TrainingArguments

from andon.callbacks.transformers import GpuMonitorCallback
from tests.frameworks.conftest import Lines
from tests.frameworks.models import SlowItems, TinyModel
from tests.frameworks.trackers import mlflow_values, tensorboard_values


def train(callback: Any, state: Path, items: int = 240, fails: bool = False, **more: Any) -> Any:
    usual: dict[str, Any] = {
        "output_dir": str(state / "out"), "per_device_train_batch_size": 4, "num_train_epochs": 1,
        "logging_steps": 5, "report_to": [], "use_cpu": True, "disable_tqdm": True,
        "save_strategy": "no", "include_num_input_tokens_seen": True, "label_names": ["labels"],
    }  # fmt: skip
    trainer = Trainer(
        TinyModel(),
        TrainingArguments(**{**usual, **more}),
        train_dataset=SlowItems(items, fails),
        eval_dataset=SlowItems(8),
        callbacks=[callback],
    )
    trainer.train()
    return trainer


def test_a_training_is_recorded_and_told_to_the_trackers(
    state: Path,
    records: Callable[[], list[Lines]],
    mlflow_database: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(state / "tb"))
    mlflow.set_tracking_uri(f"sqlite:///{mlflow_database}")
    callback = GpuMonitorCallback(name="tiny", interval_secs=1)
    trainer = train(
        callback, state, report_to=["tensorboard", "mlflow"], eval_strategy="steps",
        eval_steps=30, save_strategy="steps", save_steps=30,
    )  # fmt: skip
    mlflow.end_run()
    (lines,) = records()
    begin, end = lines[0], lines[-1]
    events = [line.get("name") for line in lines if line["event"] == "event"]
    assert {"epoch", "validation", "checkpoint", "waiting_for_data"} <= set(events)
    last = end["last_values"]
    assert (last["total_steps"], "loss" in last, "eval_loss" in last) == (60, True, True)
    assert last["samples_per_second"] == pytest.approx(4 * last["steps_per_second"])
    assert last["tokens_per_second"] == pytest.approx(32 * last["steps_per_second"], rel=0.3)
    assert 0 < last["waiting_for_data_percent"] < 100
    assert end["state"] == "succeeded"
    seen = tensorboard_values(state / "tb")
    assert seen["train/andon/energy_joules"] > 0
    assert "train/andon/utilization_percent" in seen
    metrics, params = mlflow_values(mlflow_database)
    assert {"andon/waiting_share", "andon/throttle_share"} <= set(metrics)
    assert params["andon/run"] == begin["id"]

    train_again = GpuMonitorCallback(name="resumed", trackers="none")
    trainer.add_callback(train_again)
    trainer.args.num_train_epochs = 2
    trainer.train(resume_from_checkpoint=True)
    assert [lines[-1]["state"] for lines in records()] == ["succeeded"] * 3


def test_heat_stops_a_training_and_a_failed_one_is_ended_by_the_next(
    state: Path, records: Callable[[], list[Lines]]
) -> None:
    callback = GpuMonitorCallback(thermal_threshold=1, action="stop", interval_secs=0.2)
    trainer = train(callback, state, items=1200, max_steps=300)
    assert trainer.state.global_step < 300
    with pytest.raises(RuntimeError, match="no item"):
        train(callback, state, fails=True)
    calm = GpuMonitorCallback(quiet=True)
    train(callback.with_thermal_threshold(200), state, items=8)
    train(calm, state, items=8, max_steps=1)
    assert [lines[-1]["state"] for lines in records()] == [
        "succeeded", "stopped", "succeeded", "succeeded"
    ]  # fmt: skip


def test_ranks_stop_together(state: Path, records: Callable[[], list[Lines]]) -> None:
    """Only rank 0 is told to: the other stops at the same step."""
    torch.multiprocessing.start_processes(rank, (state, free_port()), nprocs=2, start_method="fork")
    first, second = sorted(records(), key=lambda lines: lines[0]["rank"])
    assert first[0]["group"] == second[0]["group"]
    assert "local rank 0 samples" in second[-1]["no_samples_reason"]
    steps = [[line["step"] for line in lines if "step" in line][-1] for lines in (first, second)]
    assert steps[0] == steps[1] < 300


def rank(number: int, state: Path, port: int) -> None:
    """One of two processes of a training."""
    os.environ |= {
        "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    AcceleratorState._reset_state(reset_partial_state=True)
    threshold = 1 if number == 0 else 200
    callback = GpuMonitorCallback(thermal_threshold=threshold, action="stop", interval_secs=0.5)
    train(callback, state, items=1200, max_steps=300, ddp_backend="gloo")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
