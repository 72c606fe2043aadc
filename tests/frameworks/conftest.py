"""Simulated devices, a state folder and a record for each test; the frameworks are real."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ |= {
    "KERAS_BACKEND": "torch",
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
    "HF_HUB_OFFLINE": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "ANDON_SIMULATE": "2",
    "ANDON_PORT": "9",  # no andon server is there
    "XDG_CONFIG_HOME": "/nonexistent",
    "ANDON_ALERTS_NODE_CPU_PERCENT": "off",
}
Lines = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this test, where everything is written."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def records(tmp_path: Path) -> Callable[[], list[Lines]]:
    """Returns the records of this test, in the order of their begins."""

    def read() -> list[Lines]:
        files = (tmp_path / "state/andon/runs").glob("*.jsonl")
        found = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
        return sorted(found, key=lambda lines: lines[0]["at"])

    return read


@pytest.fixture(scope="session")
def mlflow_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's tables, which take it ten seconds to make."""
    from mlflow import MlflowClient

    place = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(f"sqlite:///{place}").search_experiments()
    return place


@pytest.fixture
def mlflow_database(mlflow_template: Path, tmp_path: Path) -> Path:
    """A database of this test's own."""
    return Path(shutil.copy(mlflow_template, tmp_path / "mlflow.db"))
