"""What trackers wrote, read back from their own files: names, and the last value of each."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def tensorboard_values(folder: Path) -> dict[str, float]:
    """The scalars of all event files below a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: dict[str, float] = {}
    for file in folder.rglob("events.out.tfevents*"):
        events = EventAccumulator(str(file)).Reload()
        for tag in events.Tags()["scalars"]:
            found[tag] = events.Scalars(tag)[-1].value
    return found


def mlflow_values(database: Path) -> tuple[dict[str, float], dict[str, str]]:
    """The metrics and the parameters of a database."""
    with sqlite3.connect(database) as store:
        metrics = dict(store.execute("SELECT key, value FROM latest_metrics").fetchall())
        return metrics, dict(store.execute("SELECT key, value FROM params").fetchall())


def wandb_values(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The history and the config of the offline runs below a folder."""
    history: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for record in _wandb_records(folder):
        for item in record.history.item:
            name = item.key or "/".join(item.nested_key)
            history[name] = json.loads(item.value_json)
        for update in record.config.update:
            config[update.key or "/".join(update.nested_key)] = json.loads(update.value_json)
    return history, config


def wandb_system(folder: Path) -> dict[str, float]:
    """What W&B's system monitor recorded last."""
    items = (item for record in _wandb_records(folder) for item in record.stats.item)
    return {item.key: json.loads(item.value_json) for item in items}


def _wandb_records(folder: Path) -> Iterator[Any]:
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    for file in folder.rglob("*.wandb"):
        store = DataStore()
        store.open_for_scan(str(file))
        while (data := store.scan_data()) is not None:
            record = Record()
            record.ParseFromString(data)
            yield record
