"""Reports of runs as tests describe them: one device that does its work well, and changes to it."""

from typing import Any

from msgspec.structs import replace

from andon.model.run.record import RunDevice, RunLine, RunState
from andon.runs.rules.fold import RunFold
from andon.runs.rules.reports.report import (
    DeviceReport,
    Phases,
    ReadingFigures,
    RunReport,
    report_of,
)
from andon.units import GIB
from tests.support.run_records import begin

GOOD = {"utilization_percent": 97.0, "sm_active_percent": 85.0, "power_watts": 600.0}


def figures(mean: float, most: float | None = None) -> ReadingFigures:
    return ReadingFigures(0.0, mean, mean, mean if most is None else most)


def device(label: str = "0", means: dict[str, float] | None = None, **changed: Any) -> DeviceReport:
    """A device that was well used for ten minutes; `means` replaces its readings."""
    found = GOOD if means is None else means
    busy = found.get("utilization_percent")
    facts: dict[str, Any] = {
        "device": RunDevice(f"GPU-{label}", int(label), label, "NVIDIA H200", 140 * GIB, 700.0),
        "samples": 600,
        "readings": {
            name: figures(mean, 100.0 if name == "utilization_percent" and mean else None)
            for name, mean in found.items()
        },
        "idle_share": 0.0,
        "peak_memory_bytes": 110 * GIB,
        "energy_joules": 360_000.0,
        "held_seconds": 600.0,
        "phases": Phases(1.0, 598.0, 1.0, busy) if busy else None,
    }
    return DeviceReport(**{**facts, **changed})


def report(*devices: DeviceReport, **changed: Any) -> RunReport:
    listed = devices or (device(),)
    facts: dict[str, Any] = {
        "begin": replace(begin(), devices=tuple(one.device for one in listed)),
        "state": RunState.SUCCEEDED,
        "duration_seconds": 600.0,
        "samples": 600,
        "devices": listed,
        "cpu": figures(30.0),
    }
    return RunReport(**{**facts, **changed})


def report_on(*lines: RunLine, **more: Any) -> RunReport:
    """The report of a record of these lines."""
    fold = RunFold()
    fold.add_all(lines)
    return report_of(fold, **more)
