"""Records of runs that this process writes itself, also while a server looks at them."""

import math
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from andon.host.machine_id import node_name
from andon.host.processes.kin import pid_scope, started_ticks
from andon.model.run.record import (
    RunBegin,
    RunDevice,
    RunEnd,
    RunEvent,
    RunKind,
    RunLine,
    RunLogged,
    RunSample,
    RunState,
)
from andon.model.run.wire import line_to_text
from andon.runs.rules.fold import RunFold
from andon.units import GIB


class WrittenRun:
    """A run of this process: it goes on until its end is written."""

    def __init__(self, folder: Path, run: str, name: str, gpus: int = 2, **more: Any) -> None:
        facts: dict[str, Any] = {"user": "root", "model": "NVIDIA H200", "ago": 600.0} | more
        model, ago = facts.pop("model"), facts.pop("ago")
        self.began = time.time() - ago
        devices = tuple(
            RunDevice(f"GPU-{model[-4:]}-{index}", index, str(index), model, 140 * GIB, 700.0)
            for index in range(gpus)
        )
        self.begin = RunBegin(
            at=self.began, id=run, name=name, kind=RunKind.COMMAND, node=node_name(),
            pid=os.getpid(), boot=pid_scope().boot, started=started_ticks(os.getpid()),
            devices=devices, **{"command": f"python {name} --key of-{facts['user']}", **facts},
        )  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{name}_{run}.jsonl"
        self.fold = RunFold()
        self.write([self.begin])

    def write(self, lines: Iterable[RunLine]) -> None:
        listed = list(lines)
        self.fold.add_all(listed)
        with self.path.open("a") as file:
            file.write("".join(line_to_text(line) for line in listed))

    def sample(self, *seconds: float) -> None:
        self.write(self._sample(second) for second in seconds)

    def _sample(self, second: float) -> RunSample:
        busy = round(60 + 30 * math.sin(second / 40))
        readings = {
            "state": "ok", "utilization_percent": busy, "memory_used_bytes": 90 * GIB,
            "temperature_celsius": 40 + busy // 3, "power_watts": 110.0 + 5 * busy,
            "power_limit_watts": 700.0, "throttle": [],
        }  # fmt: skip
        return RunSample(self.began + second, {d.uuid: readings for d in self.begin.devices}, 12.0)

    def event(self, second: float, name: str, **data: Any) -> None:
        self.write([RunEvent(self.began + second, name, data)])

    def log(self, second: float, step: float, **values: float) -> None:
        self.write([RunLogged(self.began + second, values, step)])

    def end(self, second: float, state: RunState = RunState.SUCCEEDED, **more: Any) -> None:
        tallies = self.fold.tallies
        assert tallies is not None
        self.write([
            RunEnd(
                at=self.began + second, state=state, duration_seconds=second,
                samples=self.fold.samples, summary=dict(self.fold.summary()),
                series=tallies.series(), curves=self.fold.curves(),
                last_values=self.fold.last_values,
                exit_code=0 if state is RunState.SUCCEEDED else 1, **more,
            )
        ])  # fmt: skip
