"""Records a run: samples of its devices, what the program logs, and at the end what it used."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import asdict, replace

from andon.errors import AndonError
from andon.failures.log import FailureLog
from andon.model.device import Snapshot
from andon.model.job.progress import WorkProgress
from andon.model.request import Ring, RunAccount
from andon.model.run.record import (
    OutOfMemory,
    RunBegin,
    RunDevice,
    RunEnd,
    RunEvent,
    RunJoined,
    RunLine,
    RunLogged,
    RunSample,
    RunState,
)
from andon.model.run.wire import line_to_text
from andon.runs.alert_lines import RunAlerts
from andon.runs.rules.curves import NOT_FINITE, LoggedCurves, LoggedWindow
from andon.runs.rules.fold import RunFold
from andon.runs.rules.oom import MemoryBeforeEnd, Verdict, memory_growth, memory_numbers
from andon.runs.rules.sampled import sample_line
from andon.runs.rules.summary import RunTallies
from andon.sampling.bus import Subscription
from andon.sampling.follower import Follower

if TYPE_CHECKING:
    from andon.explain.conditions.rulebook import Rulebook

INTERVALS = ((600.0, 1.0), (3600.0, 2.0), (float("inf"), 5.0))
"""Up to this age of a run, its sampling interval."""
RING_SECONDS = 13.0  # a driver keeps its readings for 14 s, and each look costs 3 ms
LEAVING_SECONDS = 2.0
FACTS_SECONDS = 1.0  # how long the end of a very short run waits for them
TOO_SHORT = "the run ended before its devices were read"


class SampleSource(Protocol):
    """Where samples come from: a sampler, or the one that this process shares."""

    def subscribe(self, interval_seconds: float, watching: bool = False) -> Subscription: ...
    def once(
        self,
        expensive_fields: bool = False,
        with_host: bool = True,
        account: RunAccount = RunAccount.NONE,
    ) -> Snapshot: ...
    def account(self, wanted: RunAccount) -> None: ...
    def rings(self) -> Mapping[str, Ring]: ...


class LineSink(Protocol):
    """Takes lines without waiting, and counts those that it must drop."""

    path: Path
    dropped: int

    @property
    def writes(self) -> bool: ...
    def put(self, line: str) -> None: ...
    def close(self) -> None: ...


FindFacts = Callable[[Callable[[RunLine], None]], threading.Thread]
"""Begins to gather the facts, and writes them when they are known."""


class SampleWriter(Protocol):
    """Writes the samples in another form."""

    def __call__(self, snapshot: Snapshot) -> None: ...
    def close(self) -> None: ...


class RunOutcome(Struct, frozen=True):
    """How a run ended: the part of a RunEnd that its recorder cannot know."""

    state: RunState
    exit_code: int | None = None
    signal: int | None = None
    message: str | None = None
    reported_by: str | None = None
    duration_seconds: float | None = None
    released_by: str | None = None
    release_note: str | None = None
    at: float | None = None  # when it ended, where that was before now


class RunRecorder:
    """One run. A folder that does not respond, or is full, never delays it."""

    def __init__(
        self,
        begin: RunBegin,
        file: LineSink,
        source: SampleSource | None,
        sample_writer: SampleWriter | None = None,
        why_none: str | None = None,
        book: "Callable[[], Rulebook] | None" = None,
        progress: Callable[[], WorkProgress | None] = lambda: None,
    ) -> None:
        """Without a source no devices are sampled, and `why_none` is the reason; `sample_writer`
        writes each snapshot in another form; `book` has the thresholds of alerts; `progress` is
        called with each sample for the program's progress."""
        self.begin, self._source, self._sample_writer, self._why_none = (
            begin,
            source,
            sample_writer,
            why_none,
        )
        self.tallies = RunTallies(begin.devices, begin.at)
        self.file, self._progress = file, progress
        self._began = time.monotonic()
        self._pid = os.getpid()
        self._rings_due = 0.0
        self._rings: dict[str, Ring] = {}
        self._taking = threading.Lock()
        self._follower: Follower | None = None
        self._facts: threading.Thread | None = None
        self._alerts = None if book is None else RunAlerts(frozenset(self.tallies.devices), book)
        self._logged, self._window = LoggedCurves(begin.at), LoggedWindow()
        self._logging = threading.RLock()
        self._joined = False
        self.ended: RunEnd | None = None

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def is_own(self) -> bool:
        """Whether this process created the recorder; a forked child did not."""
        return os.getpid() == self._pid

    def start(self, find_facts: FindFacts | None = None, follows: bool = True) -> None:
        """Writes the first line, begins sampling, and gathers other facts in the background.
        Without `follows`, sampling begins only when `follow` is called."""
        self.write(self.begin)
        self._facts = None if find_facts is None else find_facts(self.write)
        if follows:
            self.follow()

    def follow(self) -> None:
        """Begins sampling."""
        if self._source is None:
            return
        self._source.account(RunAccount.ENERGY)
        session = self._source.subscribe(INTERVALS[0][1])
        self._rings_due = time.monotonic() + RING_SECONDS
        failures = FailureLog("andon.run", "a sample was not recorded", brief=True)
        self._follower = Follower(
            session, lambda snapshot: self._taken(session, snapshot), "andon run", failures
        ).start()

    def go_on_from(self, fold: RunFold) -> None:
        """Continues the tallies of what another process has recorded of this run."""
        assert fold.tallies is not None
        self.tallies, self._logged = fold.tallies, fold.logged
        self._window.last_steps = fold.logged.last_steps()

    def pause(self) -> None:
        """Leaves the record without an end; another process may continue it."""
        if self._follower is not None:
            self._follower.close(LEAVING_SECONDS)
        self._follower = None
        self._write_logged()
        self.file.close()

    def discard(self) -> None:
        """Deletes the record: the command did not start, so there is no run."""
        self.pause()
        self.path.unlink(missing_ok=True)

    def write(self, line: RunLine) -> None:
        """Writes a line; nothing after the end, and nothing in a forked child. Logged values wait
        for a second, or for the next sample after it, if some were written just before."""
        if self.ended is not None or not self.is_own:
            return
        found: RunLine | None = line
        if isinstance(line, RunLogged):
            found = self._log(line)
        elif isinstance(line, RunEvent) and line.name == NOT_FINITE:
            found = self._window.fresh(line)
        if found is not None:
            self.file.put(line_to_text(found))

    def _log(self, line: RunLogged) -> RunEvent | None:
        with self._logging:
            refusal = self._window.add(line)
            if self._window.is_due(time.monotonic()):
                self._write_logged()
            return refusal

    def _write_logged(self) -> None:
        """Writes the values that wait, in one piece."""
        with self._logging:
            lines = self._window.take(time.monotonic())
            self._logged.add_all(lines)
            if lines:
                self.file.put("".join(map(line_to_text, lines)))

    def take(self, snapshot: Snapshot) -> None:
        """Records one snapshot of the run's devices."""
        line = sample_line(snapshot, self.tallies.present, self._progress())
        with self._taking:
            self.tallies.add(line)
        self.write(line)
        if self._window.is_due(time.monotonic()):
            self._write_logged()
        self._take_rings()
        if self._sample_writer is not None:
            self._sample_writer(snapshot)

    def add(self, line: RunSample) -> None:
        """Counts a sample of another record, without writing it to this one."""
        with self._taking:
            self.tallies.add(line)

    def used(self) -> list[Mapping[str, Any]]:
        """Returns what each device of the run was used for so far."""
        with self._taking:
            return list(self.tallies.summary().values())

    def join(self, device: RunDevice, at: float | None = None) -> None:
        """Adds a device that the run takes after its begin: at this time, or now."""
        if device.uuid in self.tallies.present:
            return
        at = time.time() if at is None else at
        with self._taking:
            self.tallies.join(device, at)
        self._watch_present()
        if all(one.uuid != device.uuid for one in self.begin.devices):
            self.begin = replace(self.begin, devices=(*self.begin.devices, device))
            self._joined = True
            self.write(RunJoined(at, device))

    def leave(self, uuid: str, at: float | None = None) -> None:
        """Removes a device that the run gives back before it ends."""
        with self._taking:
            self.tallies.leave(uuid, time.time() if at is None else at)
        self._watch_present()

    def _watch_present(self) -> None:
        if self._alerts is not None:
            self._alerts.uuids = self.tallies.present

    def memory_before_end(self) -> list[MemoryBeforeEnd]:
        """Returns the devices' memory as last read while they worked: not the first sample, and no
        device that had used nothing."""
        latest = self.tallies.latest if self.tallies.samples > 1 else {}
        return [
            MemoryBeforeEnd(
                one.label, latest[one.uuid].get("memory_used_bytes"), one.memory_total_bytes
            )
            for one in self.begin.devices
            if one.uuid in latest and latest[one.uuid].get("memory_used_bytes") != 0
        ]

    def growth(self) -> str | None:
        """Says whether memory leaked or one step was too large, on the fullest device."""
        found = [
            (max(curve) / total, memory_growth(curve, total))
            for uuid, tallies in self.tallies.devices.items()
            if (total := tallies.device.memory_total_bytes)
            and (curve := self.tallies.memory_curve(uuid))
        ]
        return max(found, key=lambda one: one[0], default=(0.0, None))[1]

    def read_last(self) -> None:
        """Takes a last sample with up-to-date energy counters, and ends sampling."""
        if self._source is None or self._follower is None or os.getpid() != self._pid:
            return
        self._follower.close(LEAVING_SECONDS)
        self.take(self._source.once(account=RunAccount.ENERGY))

    def finish(
        self, judge: Callable[[Sequence[MemoryBeforeEnd]], Verdict], output: str, **more: Any
    ) -> tuple[Verdict, RunEnd]:
        """Completes the record of work that has ended: `judge` decides by the memory shortly before
        the end, `output` is the output with an error message; `more` are fields of RunOutcome."""
        memory, growth = self.memory_before_end(), self.growth()  # before its memory is free
        with suppress(AndonError, OSError):  # devices that cannot be read any more
            self.read_last()
        judged = judge(memory)
        oom, by = None, judged.reported_by
        if judged.end is RunState.DEVICE_OUT_OF_MEMORY:
            oom = memory_numbers(output, memory, growth)
            by = by or (None if oom is None else oom.reported_by)
        outcome = RunOutcome(judged.end, message=judged.message or None, reported_by=by, **more)
        return judged, self.end(outcome, oom)

    def end(self, outcome: RunOutcome, oom: OutOfMemory | None = None) -> RunEnd:
        """Writes the summary, which completes the record."""
        if self._facts is not None:
            self._facts.join(FACTS_SECONDS)
        if self.is_own:
            self._write_logged()
        last = self._end_line(outcome, oom)
        self.write(last)
        self.ended = last
        self.file.close()
        if self._sample_writer is not None:
            self._sample_writer.close()
        return last

    @property
    def why_none(self) -> str | None:
        """Why there are no samples; None if there are."""
        if self.tallies.samples:
            return None
        return self._why_none or TOO_SHORT

    def _taken(self, session: Subscription, snapshot: Snapshot) -> None:
        self.take(snapshot)
        if self._alerts is not None and self.tallies.samples > 1:  # what it needs loads slowly
            for alert in self._alerts.take(snapshot):
                self.write(alert)
        now = time.monotonic()
        interval = interval_at(now - self._began)
        if interval != session.interval_seconds:
            session.pace(interval, now)
        if self._source is not None and now + interval >= self._rings_due:
            self._rings_due = now + interval + RING_SECONDS
            self._source.account(RunAccount.ACTIVITY)

    def _take_rings(self) -> None:
        found = {} if self._source is None else self._source.rings()
        for uuid, ring in found.items():
            if uuid in self.tallies.devices and ring is not self._rings.get(uuid):
                self._rings[uuid] = ring
                self.tallies.devices[uuid].add_ring(ring)

    def _end_line(self, outcome: RunOutcome, oom: OutOfMemory | None) -> RunEnd:
        """Returns the last line; energy counts up to the last sample, which was at the end."""
        at, seconds = outcome.at or time.time(), outcome.duration_seconds
        seconds = max(0.0, at - self.begin.at) if seconds is None else seconds
        return RunEnd(
            **asdict(replace(outcome, at=at, duration_seconds=round(seconds, 3))),
            samples=self.tallies.samples,
            summary=self.tallies.summary(lasted_seconds=seconds),
            dropped=self.file.dropped,
            no_samples_reason=self.why_none,
            out_of_memory=oom,
            series=self.tallies.series(),
            node=self.tallies.node(),
            last_values=self._logged.last_values(),
            curves=self._logged.result(),
            devices=self.begin.devices if self._joined else (),
        )


def interval_at(age_seconds: float) -> float:
    """Returns the sampling interval of a run of this age."""
    return next(interval for until, interval in INTERVALS if age_seconds < until)
