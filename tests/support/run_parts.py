"""Runs made by hand: devices, samples, a recorder over a list of lines."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from andon.model.run.record import RunBegin, RunDevice, RunKind, RunSample
from andon.units import GIB

BEGAN = 1000.0


def device(index: int = 0, total_gib: int | None = 80) -> RunDevice:
    total = None if total_gib is None else total_gib * GIB
    return RunDevice(f"GPU-{index}", index, str(index), "NVIDIA H100", total, 700.0)


def begin(*devices: RunDevice, **more: Any) -> RunBegin:
    values: dict[str, Any] = {
        "at": BEGAN, "id": "bcdfghjk", "name": "train", "kind": RunKind.COMMAND, "node": "node17",
        "user": "alice", "pid": 100, "boot": "b", "started": 50, **more,
    }  # fmt: skip
    return RunBegin(devices=devices or (device(),), **values)


def sample(
    seconds: float, *readings: Mapping[str, Any], cpu_percent: float | None = None
) -> RunSample:
    """Of GPU 0, 1, …, this long after the begin."""
    named = {f"GPU-{i}": {"state": "ok", **one} for i, one in enumerate(readings)}
    return RunSample(BEGAN + seconds, named, cpu_percent)


class Lines:
    """A file that keeps its lines."""

    def __init__(self, path: Path | None = None) -> None:
        self.path, self.dropped, self.closed = path or Path("run.jsonl"), 0, False
        self.lines: list[dict[str, Any]] = []
        self.puts = 0

    @property
    def writes(self) -> bool:
        return True

    def put(self, line: str) -> None:
        assert line.endswith("\n")
        self.puts += 1
        self.lines += map(json.loads, line.splitlines())

    def close(self) -> None:
        self.closed = True

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]
