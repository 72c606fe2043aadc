"""Runs a map as an array of jobs that share a file system with it; they claim the items in blocks.

It collects what the workers write: their results, and the lines of their records, which become one
record with the items. The workers go on without it, so a map that was killed can be resumed.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from andon.host.files import names_in
from andon.host.interpreter import process_command
from andon.jobs.clusters.map_jobs import FIRST_POLL_SECONDS, TICK_SECONDS, MapJobs
from andon.jobs.rules.polling import FRESH_SECONDS
from andon.leases.placement import Placement
from andon.model.job.facts import WAITS
from andon.model.run.record import (
    ItemState,
    RunAlert,
    RunBegin,
    RunEnd,
    RunEvent,
    RunLine,
    RunLogged,
    RunSample,
)
from andon.runs.record import RunRecorder
from andon.runs.rules.lines import RecordLines
from andon.units import counted
from andon.work.map.blocks import FOLDER, RUNS, BlockFolder, CallResult, SharedPlan
from andon.work.map.calls import CallEnd, CallOutput
from andon.work.map.places import MapPlace
from andon.work.map.pool import MapListener, Notify, WorkerPool
from andon.work.rules.map.plan import MapPlan, MapUnit

LEAVING_SECONDS = 10.0
"""How long workers have to end their records, once all items have ended."""
STOPPING_SECONDS = 1.0
MOST_RECORDS = 10_000
PIECE_BYTES = 1 << 20


class WorkerRecords:
    """The records of a map's workers, which are read as they grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[int, RecordLines]] = {}

    def new(self) -> list[tuple[str, RunLine]]:
        """Returns the lines that came since, in the order of their times, with the name of their
        record."""
        names = [name for name in names_in(self._folder, MOST_RECORDS) if name.endswith(".jsonl")]
        return sorted(
            ((name, line) for name in names for line in self._lines(name)),
            key=lambda found: found[1].at,
        )

    def _lines(self, name: str) -> Iterator[RunLine]:
        start, lines = self._read.get(name, (0, RecordLines()))
        try:
            with (self._folder / name).open("rb") as file:
                file.seek(start)
                data = file.read(PIECE_BYTES)
        except FileNotFoundError:
            return
        self._read[name] = start + len(data), lines
        yield from lines.feed(data)


class BlockPool(WorkerPool):
    """An array of workers that claim blocks of the items."""

    outlives = True

    def __init__(
        self,
        jobs: MapJobs,
        plan: MapPlan,
        notify: Notify,
        shared: SharedPlan,
        folder: Path,
        workers: int,
    ) -> None:
        self._jobs, self.plan, self._notify = jobs, plan, notify
        self.unsampled = f"no device was read on {jobs.desk.name}"
        self._ending = False
        self._recorder: RunRecorder
        self._listener: MapListener
        self._shared, self._count = shared, workers
        self._folder = BlockFolder(folder / f"map-{os.urandom(6).hex()}")
        self.params = {FOLDER: str(self._folder.path)}
        self._records = WorkerRecords(self._folder.path / RUNS)
        self._job, self._polled_at = "", time.monotonic()
        self._seen = self._gone = False  # its jobs
        self._read: dict[str, int] = {}
        self._running: dict[int, tuple[MapUnit, MapPlace]] = {}  # by call
        self._ended: set[int] = set()
        self._places: dict[str, MapPlace] = {}  # by run
        self._at_work: dict[str, tuple[RunBegin, MapPlace]] = {}  # by record

    @property
    def workers(self) -> list[str]:
        return [place.label for _, place in self._at_work.values()]

    def first(self) -> list[Placement]:
        return []  # they take their own

    def end(self, number: int = 0) -> None:
        self._ending = True

    def run(
        self,
        first: Sequence[Placement],
        recorder: RunRecorder,
        listener: MapListener,
        tick: Callable[[], None],
    ) -> None:
        self._recorder, self._listener = recorder, listener
        self._begin()
        while not self._ending:
            if self._poll():
                self._leave()
                return
            self._rest(tick)
        self._kill()

    def _rest(self, tick: Callable[[], None]) -> None:
        until, stopped = time.monotonic() + FIRST_POLL_SECONDS, self.plan.stopped
        while not self._ending and self.plan.stopped == stopped and time.monotonic() < until:
            tick()
            time.sleep(TICK_SECONDS)

    def _begin(self) -> None:
        run = self._recorder.begin.id
        self._folder.make(replace(self._shared, run=run))
        submission = self._jobs.submission(
            process_command("map-worker", str(self._folder.path)),
            self._recorder,
            indices=tuple(range(self._count)),
            runs=str(self._folder.path / RUNS),
        )
        self._job = self._jobs.submit(submission)
        items, many = counted(len(self.plan.items), "item"), counted(self._count, "worker")
        self._notify(f"{items} for {many} on {self._jobs.desk.name}:{self._job} (run {run})")

    def _poll(self) -> bool:
        self._read_records()
        self._read_results()
        if self._is_done():
            return True
        if self.plan.stopped:
            self._folder.stop()
        if time.monotonic() - self._polled_at < (
            STOPPING_SECONDS if self.plan.stopped else FRESH_SECONDS
        ):
            return False
        self._polled_at, self._gone = time.monotonic(), self._are_gone()
        if not self._gone:
            return False
        self._read_results()
        if not self._is_done():
            self._abandon("its worker ended before it")
        return True

    def _is_done(self) -> bool:
        return self.plan.done + self.plan.failed == len(self.plan.items)

    def _are_gone(self, over: bool = False) -> bool:
        """Whether all workers have ended. Those that still wait are cancelled if no further item
        may begin."""
        listed = self._jobs.listed([self._job])
        mine = [job for job in listed or () if self._job in (job.id, job.array)]
        waiting = [job.id for job in mine if job.state in WAITS]
        if (over or self.plan.stopped) and waiting:
            self._jobs.cancel(waiting, self._notify)
        self._seen = self._seen or bool(mine)
        return listed is not None and self._seen and all(job.state.is_settled for job in mine)

    def _leave(self) -> None:
        """Waits until the workers have completed their records, then deletes the folder; workers
        that have not begun are cancelled."""
        self._read_records()
        until = time.monotonic() + LEAVING_SECONDS
        while self._at_work and not self._gone and time.monotonic() < until:
            time.sleep(TICK_SECONDS)
            self._read_records()
        if not self._gone:
            self._are_gone(over=True)
        self._folder.delete()

    def _kill(self) -> None:
        self._jobs.cancel([self._job], self._notify)
        self._abandon("cancelled")

    def _abandon(self, why: str) -> None:
        self.plan.stop(why)
        for unit, place in self._running.values():
            self._settle(unit, place, CallEnd(False, 0.0, why, interrupted=True))
        self._running.clear()

    def _settle(
        self, unit: MapUnit, place: MapPlace, end: CallEnd, at: float | None = None
    ) -> None:
        state = self.plan.ended(unit, end.ok, time.monotonic())
        self._listener.ended(unit, place, end, state, at)

    # What the workers write.

    def _read_results(self) -> None:
        for one in self._folder.results(self._read):
            if one.call not in self._ended:  # else its first worker was silent for long, and lived
                self._take(one)

    def _take(self, one: CallResult) -> None:
        unit = MapUnit(self._shared.units[one.call], one.attempt)
        place = self._places.get(one.run) or MapPlace(one.where)
        if one.call not in self._running:
            self.plan.begun(unit)
        self._running[one.call] = unit, place
        end = CallEnd(
            one.state is ItemState.OK,
            one.seconds,
            one.words,
            CallOutput(one.output),
            CallOutput(one.errors),
        )
        if one.state is ItemState.START:
            self._listener.began(unit, place, one.at)
        elif one.state is ItemState.RETRY:
            self._listener.ended(unit, place, end, one.state, one.at)
        else:
            del self._running[one.call]
            self._ended.add(one.call)
            self._settle(unit, place, end, one.at)

    def _read_records(self) -> None:
        for name, line in self._records.new():
            if isinstance(line, RunBegin):
                place = self._places[line.id] = MapPlace.of_run(line)
                self._at_work[name] = line, place
                self._listener.joined(place, line.at)
            elif isinstance(line, RunEnd) and name in self._at_work:
                self._listener.left(self._at_work.pop(name)[1], line.at)
            elif isinstance(line, RunSample):
                self._recorder.add(line)
                self._recorder.write(line)
            elif isinstance(line, RunEvent | RunLogged):
                self._recorder.write(line)
            elif isinstance(line, RunAlert) and name in self._at_work:
                node = self._at_work[name][0].node
                named = None if line.device is None else f"{node}:{line.device}"
                self._recorder.write(replace(line, device=named))
