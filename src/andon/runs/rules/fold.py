"""Folds the lines of a record into what is known of its run, in bounded memory."""

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from andon.model.job.progress import WorkProgress
from andon.model.run.energy import energy_source_of
from andon.model.run.record import (
    RunAlert,
    RunBegin,
    RunCurve,
    RunDevice,
    RunEnd,
    RunEvent,
    RunExtreme,
    RunFacts,
    RunItem,
    RunJoined,
    RunLine,
    RunLogged,
    RunRow,
    RunSample,
    RunSeries,
    RunState,
)
from andon.model.run.use import known_of, mean_of, sum_of
from andon.runs.rules.curves import LoggedCurves
from andon.runs.rules.summary import RunTallies

MOST_LINES = 20_000
"""Events, items and alerts of one run: of more, the latest of each."""


def _bounded() -> deque[Any]:
    return deque(maxlen=MOST_LINES)


MOST_EXTREMES = 30  # names of logged values in a list's row


class RunFold(Struct):
    """Takes lines one by one; every value but `begin` may be read at any time.

    `tallies` is for a record without its end: the same summary from the samples so far.
    """

    tallying: bool = True  # False where only begin and end matter
    begin: RunBegin | None = None
    facts: RunFacts | None = None
    end: RunEnd | None = None
    latest: RunSample | None = None
    last_at: float | None = None  # of any line
    samples: int = 0
    events: deque[RunEvent] = field(default_factory=_bounded)
    items: deque[RunItem] = field(default_factory=_bounded)
    alerts: deque[RunAlert] = field(default_factory=_bounded)
    left_out: int = 0  # lines that are no longer in these three
    logged: LoggedCurves = field(default_factory=lambda: LoggedCurves(0.0))
    step_lines: tuple[RunLogged, ...] = ()  # the first and the last one with a step
    tallies: RunTallies | None = None

    def add_all(self, lines: Iterable[RunLine]) -> None:
        for line in lines:
            self.add(line)

    def add(self, line: RunLine) -> None:
        """Adds a line; a second `begin`, of another record appended to the file, is ignored."""
        self.last_at = line.at if self.last_at is None else max(self.last_at, line.at)
        match line:
            case RunBegin():
                self._begin(line)
            case RunFacts():
                self.facts = line
            case RunJoined():
                self._join(line.device, line.at)
            case RunSample():
                self._sample(line)
            case RunEvent():
                self._keep(self.events, line)
            case RunItem():
                self._keep(self.items, line)
            case RunAlert():
                self._keep(self.alerts, line)
            case RunLogged():
                self._log(line)
            case RunEnd():
                self._end(line)

    def summary(self) -> Mapping[str, Mapping[str, Any]]:
        """Returns what the run used, by uuid: from its end, or from the samples so far."""
        if self.end is not None:
            return self.end.summary
        return {} if self.tallies is None else self.tallies.summary()

    def series(self) -> RunSeries | None:
        """Returns the series of the run: from its end, or from the samples so far."""
        ended = None if self.end is None else self.end.series
        return ended or (None if self.tallies is None else self.tallies.series())

    def curves(self) -> Mapping[str, RunCurve]:
        """Returns the curves of what it logged: from its end, or from the lines so far. An end
        without them is of an earlier andon, or of a run that logged nothing."""
        ended = {} if self.end is None else self.end.curves
        return ended or self.logged.result()

    @property
    def last_values(self) -> Mapping[str, float]:
        """The last of each value that it logged."""
        return {**self.logged.last_values(), **({} if self.end is None else self.end.last_values)}

    def state(self, alive: bool) -> RunState:
        """The state; `alive`: whether its process still runs, which only its own node can know."""
        if self.end is not None:
            return self.end.state
        return RunState.RUNNING if alive else RunState.LOST

    def duration_seconds(self, alive: bool, now: float) -> float | None:
        """Returns the duration; of a lost run, up to its last line."""
        if self.end is not None:
            return self.end.duration_seconds
        last = now if alive else self.last_at
        return None if self.begin is None or last is None else max(0.0, last - self.begin.at)

    def _begin(self, line: RunBegin) -> None:
        if self.begin is not None:
            return
        self.begin, self.logged.began = line, line.at
        if self.tallying:
            self.tallies = RunTallies(line.devices, line.at)

    def _join(self, device: RunDevice, at: float) -> None:
        """Adds a device that joined to those of the first line."""
        if self.begin is None or any(one.uuid == device.uuid for one in self.begin.devices):
            return
        self.begin = replace(self.begin, devices=(*self.begin.devices, device))
        if self.tallies is not None:
            self.tallies.join(device, at)

    def _sample(self, line: RunSample) -> None:
        self.samples += 1
        self.latest = line
        if self.tallies is not None:
            self.tallies.add(line)

    def _log(self, line: RunLogged) -> None:
        self.logged.add(line)
        if line.step is not None:
            self.step_lines = (*self.step_lines[:1], line)

    def _end(self, line: RunEnd) -> None:
        self.end = line
        for device in line.devices:
            self._join(device, line.at)

    def _keep(self, lines: deque[Any], line: RunLine) -> None:
        self.left_out += len(lines) == MOST_LINES
        lines.append(line)


def row_of(begin: RunBegin, fold: RunFold, path: str, alive: bool, whole: bool = True) -> RunRow:
    """Returns the run as lists show it; `whole`: whether every line of the record was folded."""
    end, used = fold.end, fold.summary().values()
    samples = end.samples if end is not None else fold.samples if whole and not alive else None
    return RunRow(
        id=begin.id,
        name=begin.name,
        kind=begin.kind,
        state=fold.state(alive),
        node=begin.node,
        began=begin.at,
        path=path,
        user=begin.user,
        ended=_ended(fold, alive),
        duration_seconds=None if alive and end is None else fold.duration_seconds(False, begin.at),
        command=begin.command,
        devices=begin.devices,
        parent=begin.parent,
        group=begin.group,
        rank=begin.rank,
        world_size=begin.world_size,
        simulated=begin.simulated,
        samples=samples,
        no_samples_reason=None if end is None else end.no_samples_reason,
        waited_seconds=begin.waited_seconds,
        exit_code=None if end is None else end.exit_code,
        message=None if end is None else end.message,
        mean_utilization_percent=mean_of(used, "utilization_percent"),
        peak_memory_bytes=max(known_of(used, "peak_memory_bytes"), default=None),
        energy_joules=sum_of(used, "energy_joules"),
        energy_source=energy_source_of(used),
        idle_share=mean_of(used, "idle_share"),
        params=begin.params,
        last_values=dict(fold.last_values),
        extremes=_extremes(fold),
        tags=begin.tags,
        progress=_progress(fold) if alive and end is None else None,
    )


def _extremes(fold: RunFold) -> dict[str, tuple[RunExtreme, RunExtreme]]:
    found = islice(fold.curves().items(), MOST_EXTREMES)
    return {name: (c.lowest, c.highest) for name, c in found if c.lowest and c.highest}


def _progress(fold: RunFold) -> WorkProgress | None:
    """Returns the progress that the program logs, or else the progress that it prints."""
    printed = None if fold.latest is None else fold.latest.progress
    if not fold.step_lines:
        return printed
    from andon.runs.rules.progress import logged_progress  # few runs log steps

    return logged_progress(fold.step_lines) or printed


def _ended(fold: RunFold, alive: bool) -> float | None:
    if fold.end is not None:
        return fold.end.at
    return None if alive else fold.last_at
