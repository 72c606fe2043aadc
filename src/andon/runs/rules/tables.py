"""The samples of a run as rows: one for each device and time, units in the names."""

from collections.abc import Iterator, Mapping
from typing import Any

from andon.model.run.record import SAMPLED, RunBegin, RunSample

TEXT, WHOLE, NUMBER, TIME = "string", "int64", "float64", "time"
SAMPLE_COLUMNS: Mapping[str, str] = {
    "at": TIME, "elapsed_seconds": NUMBER, "run": TEXT, "device": TEXT, "index": WHOLE,
    "label": TEXT, "model": TEXT, "state": TEXT,
    **{name: TEXT if name == "throttle" else NUMBER for name in SAMPLED},
    "cpu_percent": NUMBER,
}  # fmt: skip
"""Name → type. New readings are added at the end, so that parsing by position keeps working."""


def sample_rows(begin: RunBegin, sample: RunSample) -> Iterator[dict[str, Any]]:
    """Yields a row for each device; None for a value that is not known."""
    for device in begin.devices:
        readings = sample.devices.get(device.uuid)
        if readings is None:
            continue
        reasons = readings.get("throttle")
        yield {
            "at": sample.at,
            "elapsed_seconds": round(sample.at - begin.at, 3),
            "run": begin.id,
            "device": device.uuid,
            "index": device.index,
            "label": device.label,
            "model": device.name,
            "state": readings.get("state"),
            **{name: readings.get(name) for name in SAMPLED},
            "throttle": None if reasons is None else " ".join(reasons),
            "cpu_percent": sample.cpu_percent,
        }
