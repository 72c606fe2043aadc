"""Runs as entries of a list, and what they can be filtered by."""

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from andon.model.naming import models_text, short_model
from andon.model.run.record import RunRow, RunState
from andon.model.shapes import plain
from andon.model.wire import dumps
from andon.node.run_schemas import Plain, RunChoice, RunChoices, RunEntry
from andon.runs.rules.matching import RunCounts

NO_DEVICES = "it used no GPU of this node"
NOT_SAMPLED = "the run ended before its devices were read"
MOST_LISTED = 500
MOST_OFFSET = 1_000_000_000
MOST_CHOICES = 100  # of a kind: a menu with more is no help
_AS_RECORDED = (
    "id", "name", "kind", "state", "node", "user", "began", "ended", "samples", "parent", "group",
    "rank", "world_size", "simulated", "waited_seconds", "exit_code", "mean_utilization_percent",
    "peak_memory_bytes", "energy_joules", "energy_source", "idle_share", "message", "note",
    "last_values", "extremes", "command", "progress",
)  # fmt: skip


def choices_of(every: RunCounts) -> RunChoices:
    models = Counter[str]()
    for names, count in every.devices.items():
        models.update(dict.fromkeys((_brief(name) for name in names), count))
    return RunChoices(
        models=_counted(models),
        tags=_counted(every.tags),
        groups=_counted(every.groups),
        states=_counted(every.states),
    )


def models_of(row: RunRow) -> list[str]:
    """Returns each model once, by its common name."""
    return list(dict.fromkeys(_brief(device.name) for device in row.devices))


@lru_cache(256)
def _brief(name: str) -> str:
    return short_model(name, brief=True)


def entry_of(row: RunRow, now: float) -> RunEntry:
    sampled = bool(row.samples) or (row.samples is None and row.state is RunState.RUNNING)
    telemetry = sampled and bool(row.devices)
    return RunEntry(
        **plain(row, _AS_RECORDED),
        duration_seconds=_duration(row, now),
        gpus=models_text(device.name for device in row.devices) or None,
        models=models_of(row),
        devices=list(row.devices),
        telemetry=telemetry,
        telemetry_reason=None if telemetry else why_unsampled(row),
        tags=list(row.tags),
        params=_plainly(row.params),
        hidden=None,
    )


def why_unsampled(row: RunRow) -> str:
    if row.no_samples_reason:
        return row.no_samples_reason
    return NOT_SAMPLED if row.devices else NO_DEVICES


def _duration(row: RunRow, now: float) -> float | None:
    if row.duration_seconds is None and row.state is RunState.RUNNING:
        return max(0.0, now - row.began)
    return row.duration_seconds


def _plainly(params: Mapping[str, Any]) -> dict[str, Plain]:
    """Returns numbers and strings unchanged, and anything else as JSON text."""
    return {
        str(name): value if isinstance(value, str | int | float | None) else _json(value)
        for name, value in params.items()
    }


def _json(value: object) -> str:
    return dumps(value) if isinstance(value, list | dict) else str(value)


def _counted(values: Mapping[str, int]) -> list[RunChoice]:
    """Returns the most frequent values with their counts, in alphabetical order."""
    found = Counter(values).most_common(MOST_CHOICES)
    return [RunChoice(value, count) for value, count in sorted(found)]
