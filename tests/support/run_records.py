"""Records of runs as tests write them: short, whole, and with any line left out."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from andon.model.run.record import (
    GitState,
    ItemState,
    RunAlert,
    RunBegin,
    RunDevice,
    RunEnd,
    RunEvent,
    RunFacts,
    RunItem,
    RunKind,
    RunLine,
    RunLogged,
    RunSample,
    RunState,
)
from andon.model.run.wire import line_to_text
from andon.units import GIB

BEGAN = 1_763_250_000.0
DEVICES = (
    RunDevice("GPU-a", 0, "0", "NVIDIA H200", 140 * GIB),
    RunDevice("GPU-b", 1, "1", "NVIDIA H200", 140 * GIB),
)


def begin(**changed: Any) -> RunBegin:
    facts: dict[str, Any] = {
        "at": BEGAN,
        "id": "kqzvmtra",
        "name": "train",
        "kind": RunKind.COMMAND,
        "node": "node-1",
        "user": "ada",
        "pid": 4242,
        "boot": "b-1",
        "started": 100.0,
        "devices": DEVICES,
        "command": "python train.py",
    }
    return RunBegin(**{**facts, **changed})


def sample(after: float, percent: float | None = 50, watts: float | None = 300.0) -> RunSample:
    """Both devices alike, `after` seconds from the begin."""
    readings: dict[str, Any] = {
        "state": "ok",
        "utilization_percent": percent,
        "memory_used_bytes": 70 * GIB,
        "temperature_celsius": 60,
        "power_watts": watts,
        "throttle": [],
    }
    return RunSample(BEGAN + after, {device.uuid: readings for device in DEVICES}, 12.0)


def used(percent: float = 50.0, joules: float = 3000.0) -> dict[str, Any]:
    return {
        "index": 0,
        "name": "NVIDIA H200",
        "samples": 10,
        "idle_share": 0.25,
        "peak_memory_bytes": 70 * GIB,
        "energy_joules": joules,
        "utilization_percent": {"min": 0, "max": 100, "mean": percent, "p95": 99},
    }


def end(**changed: Any) -> RunEnd:
    facts: dict[str, Any] = {
        "at": BEGAN + 10,
        "state": RunState.SUCCEEDED,
        "duration_seconds": 10.0,
        "samples": 10,
        "summary": {"GPU-a": used(40.0), "GPU-b": used(60.0)},
        "exit_code": 0,
    }
    return RunEnd(**{**facts, **changed})


def text_of(lines: Iterable[RunLine]) -> str:
    return "".join(line_to_text(line) for line in lines)


def write_record(path: Path, *lines: RunLine) -> Path:
    """A whole record, or these lines."""
    path.write_text(text_of(lines or (begin(), sample(1), end())))
    return path


HAPPENINGS: list[RunLine] = [
    RunFacts(BEGAN + 0.1, GitState("0123456789abcdef", dirty=True), versions={"torch": "2.9.0"}),
    *(sample(n, 5 * n % 100) for n in range(20)),
    RunItem(BEGAN + 3, ItemState.OK, 0, "chunk-0.bin", "1", runtime_seconds=2.5),
    RunItem(BEGAN + 4, ItemState.RETRY, 1, "chunk-1.bin", "0", attempt=2),
    RunItem(BEGAN + 5, ItemState.FAILED, 1, "chunk-1.bin", "0", runtime_seconds=61.0),
    RunLogged(BEGAN + 6, {"loss": 0.123456, "lr": 1e-4}, 120),
    RunEvent(BEGAN + 7, "epoch", {"number": 3}),
    RunAlert(BEGAN + 8, "thermal", "warning", "firing", "GPU 0 is at 88 °C", "0"),
]
FULL = begin(
    tags=("paper",), params={"lr": 0.1, "layers": 12}, group="sweep", rank=0, world_size=2,
    waited_seconds=75.0, allocation_method="score", working_directory="/home/ada/work",
)  # fmt: skip
