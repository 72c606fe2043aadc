"""Writes the records of the demo's runs, up to now and then as they go on."""

import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from andon.drivers.sim.rules import behaviour
from andon.drivers.sim.rules.demo import Demo, DemoOutcome, DemoWork
from andon.host.processes.kin import pid_scope, started_ticks
from andon.model.device import Host
from andon.model.run.record import (
    SAMPLED,
    GitState,
    OutOfMemory,
    RunBegin,
    RunDevice,
    RunEnd,
    RunFacts,
    RunKind,
    RunLine,
    RunLogged,
    RunRow,
    RunSample,
    RunState,
)
from andon.model.run.wire import line_to_text
from andon.runs.files import RecordRead
from andon.runs.index import RunFinder
from andon.runs.rules.fold import RunFold
from andon.units import GIB
from andon.web.demo.jobs import OUT_OF_MEMORY, is_recorded, progress_of, run_id, values_of

LIVE_SECONDS = 5.0
PAST_SAMPLES, LIVE_SAMPLES = 16, 64  # of a run that had ended when the demo began, and of others
NODE = "lab"
_ENDS = {
    DemoOutcome.SUCCEEDED: (RunState.SUCCEEDED, 0, None),
    DemoOutcome.FAILED: (RunState.FAILED, 1, "exit code 1"),
    DemoOutcome.OUT_OF_MEMORY: (RunState.DEVICE_OUT_OF_MEMORY, 1, OUT_OF_MEMORY),
    DemoOutcome.CANCELLED: (RunState.STOPPED, None, "cancelled by its user"),
}


class DemoHost:
    """The values of the simulated host, shown instead of this machine's."""

    def __init__(self, demo: Demo) -> None:
        self._demo = demo

    def read(self) -> Host:
        return self._demo.host(time.time())


class DemoFinder(RunFinder):
    """Finds the demo's runs; their user is the one that the record names."""

    def row_of(self, read: RecordRead) -> RunRow:
        return replace(super().row_of(read), user=read.begin.user)


class DemoRuns:
    """The records of all works that are jobs and have begun."""

    def __init__(self, demo: Demo, folder: Path) -> None:
        self._demo, self._folder = demo, folder
        self._open: dict[int, _Record] = {}
        self._ended: set[int] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="demo runs", daemon=True)

    def write(self, now: float) -> None:
        """Brings every record up to this time."""
        for work in self._demo.works:
            is_due = work.began <= now and is_recorded(self._demo, work)
            if is_due and work.number not in self._ended:
                record = self._open.get(work.number)
                if record is None:
                    record = self._open[work.number] = _Record(self._demo, work, self._folder)
                if record.write(now):
                    self._ended.add(work.number)
                    del self._open[work.number]

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._stopped.wait(LIVE_SECONDS):
            self.write(time.time())


class _Record:
    """One record; `write` adds what happened since the last call."""

    def __init__(self, demo: Demo, work: DemoWork, folder: Path) -> None:
        self._demo, self._work, self._fold = demo, work, RunFold()
        self._path = folder / f"{work.name}_{run_id(work)}.jsonl"
        self._until: float | None = None

    def write(self, now: float) -> bool:
        """Writes up to now; returns whether the run has ended."""
        work, lines = self._work, list[RunLine]()
        until = min(now, work.ended)
        if self._until is None:
            lines += [self._begin(), _facts(work)]
            number = PAST_SAMPLES if now >= work.ended else LIVE_SAMPLES
            step = (until - work.began) / number
            times = [work.began + 2 + step * n for n in range(number)] if step > 1 else []
        else:
            times, step = [until], until - self._until
        self._until = until
        for at in times:
            lines += [
                self._sample(at, step),
                RunLogged(at, values_of(work, at), progress_of(work, at).step),
            ]
        for line in lines:
            self._fold.add(line)
            if line is lines[0] and self._fold.tallies is not None:
                self._fold.tallies.expect(work.ended)
        if now >= work.ended:
            lines.append(self._end())
        self._put(lines)
        return now >= work.ended

    def _put(self, lines: Iterable[RunLine]) -> None:
        with self._path.open("a") as file:
            file.write("".join(map(line_to_text, lines)))

    def _begin(self) -> RunBegin:
        work, demo = self._work, self._demo
        devices = (demo.devices[gpu] for gpu in work.gpus)
        return RunBegin(
            at=work.began, id=run_id(work), name=work.name, kind=RunKind.JOB, node=NODE,
            user=work.user, pid=os.getpid(), boot=pid_scope().boot,
            started=started_ticks(os.getpid()),
            devices=tuple(
                RunDevice(one.uuid, one.index, str(one.index), f"{one.model.name} (simulated)",
                          one.model.memory_bytes, one.limit_watts)
                for one in devices
            ),
            simulated=True, command=work.command, working_directory=f"/home/{work.user}/work",
            group=work.group, waited_seconds=work.began - work.submitted, params=work.params,
            tags=("nightly",) if work.group is None else (),
        )  # fmt: skip

    def _sample(self, at: float, seconds: float) -> RunSample:
        read = {}
        for gpu in self._work.gpus:
            device = self._demo.device(gpu, at)
            sample = behaviour.sample(device, at, seconds)
            read[device.uuid] = {"state": "ok"} | {
                name: getattr(sample, name) for name in SAMPLED if name not in device.model.lacks
            }
        return RunSample(at, read, cpu_percent=self._demo.host(at).cpu_percent,
                         progress=progress_of(self._work, at))  # fmt: skip

    def _end(self) -> RunEnd:
        work, fold = self._work, self._fold
        state, code, message = _ENDS[work.outcome]
        more: dict[str, Any] = {}
        if state is RunState.DEVICE_OUT_OF_MEMORY:
            more["out_of_memory"] = OutOfMemory("torch", int(2.5 * GIB), int(1.12 * GIB), 76 * GIB)
        return RunEnd(
            at=work.ended, state=state, duration_seconds=work.ended - work.began,
            samples=fold.samples, summary=dict(fold.summary()), exit_code=code, message=message,
            series=fold.series(),
            last_values=fold.last_values, curves=fold.curves(), **more,
        )  # fmt: skip


def _facts(work: DemoWork) -> RunFacts:
    commit = f"{work.number * 0x9E3779B1 & 0xFFFFFFFF:08x}"
    return RunFacts(work.began + 1, GitState(commit, False), versions={"torch": "2.9.1"})
