"""Runs a command on devices, with its environment and its record; for `run` and `lease`."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from andon.app import rulebook
from andon.app.runs import remember
from andon.cli.show import csv_rows
from andon.cli.sources import resolved_of
from andon.cli.terminal import Choices, notice
from andon.host.oom_kills import host_kills
from andon.leases.book.hold import LeaseHold
from andon.leases.placement import Grant, Placement
from andon.model.device import Snapshot
from andon.model.lease_wire import ReleaseNote
from andon.model.redaction import redact
from andon.model.run.record import OutOfMemory, RunBegin, RunCandidate, RunKind, RunState
from andon.runs.facts import find_facts
from andon.runs.header import new_run, place_of, record_path, runs_folder
from andon.runs.line_pipe import LinePipe
from andon.runs.record import RunOutcome, RunRecorder
from andon.runs.rules.oom import Verdict, memory_numbers, verdict
from andon.runs.rules.ranks import RUN_VARIABLE
from andon.runs.rules.usage_words import end_words
from andon.sampling.sampler import Sampler
from andon.settings.inherited import simulation_variables
from andon.units import MIB, command_name
from andon.work.launcher import CommandEnd, Launcher
from andon.work.lease_watch import LeaseWatch
from andon.work.preparing import bound_line, bound_to, defaults, free_port
from andon.work.tap import PrintedProgress

if TYPE_CHECKING:
    from andon.work.containers.running import ContainedCommand

# The samples of a run as CSV, beside its record.


class CsvCopy:
    """Writes the samples of a run as CSV, beside the record."""

    def __init__(self, path: Path, uuids: Collection[str], notify: Callable[[str], None]) -> None:
        self._file, self._uuids = LinePipe(path, notify), uuids
        self._file.put(csv_rows.header())

    def __call__(self, snapshot: Snapshot) -> None:
        mine = tuple(s for s in snapshot.devices if s.device.uuid in self._uuids)
        for row in csv_rows.device_rows(replace(snapshot, devices=mine)):
            self._file.put(row)

    def close(self) -> None:
        self._file.close()


RECORD_VARIABLE = "ANDON_RECORD"  # tells the command where its record is


class RecordOptions(Struct, frozen=True):
    """How a run is recorded: the record's name and folder, and whether as CSV too."""

    name: str | None = None
    folder: Path | None = None
    csv: bool = False


class Running:
    """A command to run, once per attempt."""

    def __init__(
        self,
        choices: Choices,
        command: Sequence[str],
        sampler: Sampler,
        record: RecordOptions | None = None,
        interactive: bool = False,
        shell: bool = False,
        contained: "ContainedCommand | None" = None,
        bind: bool = False,
    ) -> None:
        """`contained`: the command runs in a container. With `bind` it runs on the CPUs next to its
        devices, as far as they are known."""
        self._contained = contained
        self._choices, self._command, self._sampler = choices, list(command), sampler
        self._record = record or RecordOptions()
        self._interactive, self._shell, self._bind = interactive, shell, bind
        self.words = redact(tuple(command))

    def on_grant(self, grant: Grant) -> tuple[int, Verdict]:
        """Runs the command on the granted devices, and releases them whatever happens, unless
        the engine could not remove the container."""
        choice = {
            "waited_seconds": round(grant.waited_seconds, 3),
            "candidates": _candidates(grant),
        }
        try:
            return self._run(grant, choice)
        finally:
            if self._contained is not None and self._contained.lives():
                grant.held.hold.close()
                self._notify(
                    f"its container still runs: lease {grant.lease_id} is kept; "
                    f"to end both: andon release {grant.lease_id}"
                )
            else:
                grant.held.release()

    def on_lease(self, placement: Placement) -> tuple[int, Verdict]:
        """Run it on a lease held elsewhere, without ending that lease."""
        return self._run(placement, {})

    def _run(self, placement: Placement, choice: dict[str, Any]) -> tuple[int, Verdict]:
        held = placement.held
        begin = self._begin(placement, choice)
        printed, watch = PrintedProgress(begin.at), LeaseWatch(held, self._notify)
        recorder = self._recorder(begin, held, printed)
        bound = bound_to(placement.devices) if self._bind else None
        image = None if self._contained is None else self._contained.options.image
        recorder.start(partial(find_facts, self._command, image=image))
        if bound is not None:
            recorder.write(bound_line(bound))
            self._notify(bound.words)
        remember(recorder.path)
        if not self._interactive:  # `andon lease` has said so
            self._notify(f"running on {placement.title} (lease {placement.lease_id})")
        outcome, oom = RunOutcome(RunState.NOT_STARTED), None
        kills = host_kills()
        try:
            if self._contained is None:
                told = {
                    **os.environ,
                    **defaults(os.environ, free_port()),
                    **placement.environment,
                    **simulation_variables(resolved_of(self._choices).settings),
                    **_told(recorder),
                }
                cpus = None if bound is None else bound.cpus
                end = self._launched(self._command, told, held, watch, printed, cpus=cpus)
                killed = False
            else:
                from andon.work.containers.running import follow_container

                told = {**defaults({}, free_port()), RUN_VARIABLE: recorder.begin.id}
                self._contained.create(
                    placement.lease_id or "", placement.devices, told, placement.name_container
                )
                send = self._contained.send
                end, killed = follow_container(
                    self._contained,
                    lambda command: self._launched(command, os.environ, held, watch, printed, send),
                )
            if held is not None:
                held.release()  # before anything else: others are waiting for it
            strains, growth = recorder.strains(), recorder.growth()  # before its memory is free
            recorder.read_last()
            judged = verdict(
                end.code,
                end.signal,
                end.tail,
                strains,
                host_kills() - kills,
                end.ended_for,
                end.interrupted,
                killed,
            )
            if judged.end is RunState.DEVICE_OUT_OF_MEMORY:
                oom = memory_numbers(end.tail, strains, growth)
            outcome = _outcome(end, judged, watch.note)
            return end.code, judged
        finally:
            self._finish(recorder, outcome, oom)

    def _launched(
        self,
        command: Sequence[str],
        told: Mapping[str, str],
        held: LeaseHold | None,
        watch: LeaseWatch,
        printed: PrintedProgress,
        elsewhere: Callable[[int], None] | None = None,
        cpus: frozenset[int] | None = None,
    ) -> CommandEnd:
        launcher = Launcher(
            command,
            told,
            resolved_of(self._choices).settings.work_grace_seconds,
            held.hold if held else None,
            self._interactive,
            tapped=not self._interactive,
            asked_by=watch.released,
            shell=self._shell,
            cpus=cpus,
            elsewhere=elsewhere,
        )
        printed.follow(launcher.recent)
        return launcher.run(watch.check, self._notify)

    def _finish(self, recorder: RunRecorder, outcome: RunOutcome, oom: OutOfMemory | None) -> None:
        """Complete the record; one line says what was used and how to read more."""
        last = recorder.end(outcome, oom)
        if outcome.state is not RunState.NOT_STARTED:
            self._notify(end_words(recorder.begin, last, recorder.file.writes))

    def _begin(self, placement: Placement, choice: dict[str, Any]) -> RunBegin:
        assert placement.snapshot is not None
        return new_run(
            RunKind.COMMAND,
            self._record.name or command_name(self._command),
            placement.snapshot,
            placement.uuids,
            os.environ,
            command=self.words,
            lease=placement.lease_id,
            allocation_method=placement.method,
            world_size=len(placement.devices),
            **choice,
        )

    def _recorder(
        self, begin: RunBegin, held: LeaseHold | None, printed: PrintedProgress
    ) -> RunRecorder:
        """Returns the recorder; of several ranks on one lease only the first samples. A lease of
        its own is always sampled."""
        folder = self._record.folder or runs_folder()
        path = record_path(folder, begin.name, begin.at)
        place = place_of(os.environ)
        skipped = place.sampled_by_another(len(begin.devices)) if held is None else None
        return RunRecorder(
            begin,
            LinePipe(path, self._notify),
            None if skipped else self._sampler,
            self._csv(path, begin) if self._record.csv else None,
            why_none=skipped,
            book=lambda: rulebook(resolved_of(self._choices).settings),
            progress=printed,
        )

    def _csv(self, path: Path, begin: RunBegin) -> CsvCopy:
        return CsvCopy(path.with_suffix(".csv"), {one.uuid for one in begin.devices}, self._notify)

    def _notify(self, text: str) -> None:
        notice(text, self._choices)


def _candidates(grant: Grant) -> tuple[RunCandidate, ...]:
    """Returns every device that could have been chosen, with its values at that time."""
    models = {s.device.uuid: s.device.name for s in grant.candidates.snapshot.devices}
    return tuple(
        RunCandidate(
            index=one.index,
            name=models.get(one.uuid) or "",
            memory_free_mb=None if one.free_bytes is None else round(one.free_bytes / MIB, 1),
            utilization_percent=one.utilization_percent,
            availability_score=None if one.score is None else round(one.score, 4),
            uuid=one.uuid,
            obstacle=None if one.obstacle is None else one.obstacle.words,
        )
        for one in grant.candidates.choice.candidates
    )


def _told(recorder: RunRecorder) -> dict[str, str]:
    """Returns the variables for the command: its run's id, and where its record is."""
    path = str(recorder.path.absolute())
    return {RUN_VARIABLE: recorder.begin.id, RECORD_VARIABLE: path}


def _outcome(end: CommandEnd, judged: Verdict, note: ReleaseNote | None) -> RunOutcome:
    found = RunOutcome(
        judged.end, end.code, end.signal, judged.words, judged.reported_by, round(end.seconds, 3)
    )
    return found if note is None else replace(found, released_by=note.by, release_note=note.note)
