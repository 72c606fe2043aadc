"""Runs a command on devices, with its environment and its record; for `run` and `lease`."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
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
from andon.errors import Conflict, Gone
from andon.host.oom_kills import host_kills
from andon.host.processes.kin import here, user_name
from andon.leases.availability import AvailabilityView
from andon.leases.book.hold import LeaseHold, name_container_in
from andon.leases.book.lease_book import Book
from andon.leases.book.lock_holders import LockTable, strangers
from andon.leases.book.places import LEASES
from andon.leases.book.rejoin import Presence
from andon.leases.book.release_notes import read_note
from andon.leases.granter import Grant
from andon.leases.rules.eligibility import chosen_by
from andon.leases.rules.environment import environment
from andon.model.device import Device, Snapshot
from andon.model.lease import DeviceRequest, Lease
from andon.model.lease_wire import ReleaseNote
from andon.model.naming import title
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
from andon.units import MIB, human_seconds
from andon.work.launcher import CommandEnd, Launcher
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
WARN_SECONDS = 300.0  # how long before its end the owner is warned


class AttachedLease(Struct, frozen=True):
    """A lease of this user that another process holds, and its devices as they are now."""

    lease: Lease
    devices: tuple[Device, ...]
    snapshot: Snapshot
    file: Path

    def name_container(self, container: str) -> None:
        """Write a container into the lease's file, which is this user's."""
        name_container_in(self.file, container)


def attached(name: str, view: AvailabilityView, request: DeviceRequest) -> AttachedLease:
    """One of this user's leases by its id; it must hold enough devices, all present."""
    path, found, lease = Book(make=False).find(name)
    if found.uid != os.getuid():
        raise Conflict(f"lease {lease.id} belongs to {user_name(found.uid)}")
    if strangers(path, found.name, lease, found.uid, here(), LockTable()):
        raise Gone(f"lease {lease.id} has lost its holder", hint=f"andon release {lease.id}")
    present = {s.device.uuid: s.device for s in view.snapshot.devices}
    missing = [share.index for share in lease.shares if share.uuid not in present]
    if missing:
        raise Gone(f"{title(str(missing[0]))} of lease {lease.id} is no longer present")
    if request.least > len(lease.shares):
        raise Conflict(
            f"{request.least} GPUs requested, but lease {lease.id} holds {len(lease.shares)}",
            hint="to request others, omit --lease and unset ANDON_LEASE",
        )
    shares = lease.shares if request.least == 1 else lease.shares[: request.most]
    devices = tuple(present[share.uuid] for share in shares)
    return AttachedLease(lease, devices, view.snapshot, path / LEASES / found.name)


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
        chosen = tuple(capacity.status.device for capacity in grant.candidates.choice.chosen)
        choice = {
            "waited_seconds": round(grant.waited_seconds, 3),
            "allocation_method": chosen_by(grant.candidates.choice.linked),
            "candidates": _candidates(grant),
            "world_size": len(chosen),
        }
        lease, snapshot = grant.held.lease, grant.candidates.snapshot
        try:
            name = grant.held.hold.name_container
            return self._run(lease, chosen, snapshot, choice, grant.held, name)
        finally:
            if self._contained is not None and self._contained.lives():
                grant.held.hold.close()
                self._notify(
                    f"its container still runs: lease {lease.id} is kept; "
                    f"to end both: andon release {lease.id}"
                )
            else:
                grant.held.release()

    def on_lease(self, found: AttachedLease) -> tuple[int, Verdict]:
        """Run it on a lease held elsewhere, without ending that lease."""
        choice = {"allocation_method": "the lease", "world_size": len(found.devices)}
        name = found.name_container
        return self._run(found.lease, found.devices, found.snapshot, choice, None, name)

    def _run(
        self,
        lease: Lease,
        chosen: Sequence[Device],
        snapshot: Snapshot,
        choice: dict[str, Any],
        held: LeaseHold | None,
        name_container: Callable[[str], None],
    ) -> tuple[int, Verdict]:
        everyone = [status.device for status in snapshot.devices]
        begin = self._begin(lease, chosen, snapshot, choice)
        printed, released = PrintedProgress(begin.at), LeaseRelease(held)
        recorder = self._recorder(begin, held, printed)
        bound = bound_to(chosen) if self._bind else None
        image = None if self._contained is None else self._contained.options.image
        recorder.start(partial(find_facts, self._command, image=image))
        if bound is not None:
            recorder.write(bound_line(bound))
            self._notify(bound.words)
        remember(recorder.path)
        if not self._interactive:  # `andon lease` has said so
            self._notify(f"running on {_where(begin)} (lease {lease.id})")
        outcome, oom = RunOutcome(RunState.NOT_STARTED), None
        kills = host_kills()
        try:
            if self._contained is None:
                told = {
                    **os.environ,
                    **defaults(os.environ, free_port()),
                    **environment(chosen, everyone, lease.id),
                    **simulation_variables(resolved_of(self._choices).settings),
                    **_told(recorder),
                }
                cpus = None if bound is None else bound.cpus
                end = self._launched(self._command, told, held, released, printed, cpus=cpus)
                killed = False
            else:
                from andon.work.containers.running import follow_container

                told = {**defaults({}, free_port()), RUN_VARIABLE: recorder.begin.id}
                self._contained.create(lease.id, chosen, told, name_container)
                send = self._contained.send
                end, killed = follow_container(
                    self._contained,
                    lambda command: self._launched(
                        command, os.environ, held, released, printed, send
                    ),
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
            outcome = released.noted(_outcome(end, judged))
            return end.code, judged
        finally:
            self._finish(recorder, outcome, oom)

    def _launched(
        self,
        command: Sequence[str],
        told: Mapping[str, str],
        held: LeaseHold | None,
        released: "LeaseRelease",
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
            asked_by=released.words,
            shell=self._shell,
            cpus=cpus,
            elsewhere=elsewhere,
        )
        printed.follow(launcher.recent)
        return launcher.run(LeaseCheck(held, self._notify), self._notify)

    def _finish(self, recorder: RunRecorder, outcome: RunOutcome, oom: OutOfMemory | None) -> None:
        """Complete the record; one line says what was used and how to read more."""
        last = recorder.end(outcome, oom)
        if outcome.state is not RunState.NOT_STARTED:
            self._notify(end_words(recorder.begin, last, recorder.file.writes))

    def _begin(
        self, lease: Lease, chosen: Sequence[Device], snapshot: Snapshot, choice: dict[str, Any]
    ) -> RunBegin:
        return new_run(
            RunKind.COMMAND,
            self._record.name or command_name(self._command),
            snapshot,
            [device.uuid for device in chosen],
            os.environ,
            command=self.words,
            lease=lease.id,
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


class LeaseRelease:
    """Who ended this lease from elsewhere; read once, when the holder is asked to stop."""

    def __init__(self, held: LeaseHold | None) -> None:
        self._held = held
        self._found: ReleaseNote | None = None

    def words(self) -> str | None:
        if self._held is None:
            return None
        self._found = self._found or read_note(self._held.hold)
        return None if self._found is None else self._found.words(self._held.lease.id)

    def noted(self, outcome: RunOutcome) -> RunOutcome:
        """Returns the outcome with the user who released the lease, for the record."""
        found = self._found
        if found is None:
            return outcome
        return replace(outcome, released_by=found.by, release_note=found.note)


class LeaseCheck:
    """Whether the command must stop, checked about once a second."""

    def __init__(self, held: LeaseHold | None, notify: Any) -> None:
        self._held, self._notify, self._warned = held, notify, False
        self._presence = Presence(held.hold, notify) if held else None

    def __call__(self) -> str | None:
        if self._held is None or self._presence is None:
            return None
        with suppress(OSError):  # a book that cannot be read does not end the command
            self._presence.check()
        left, name = self._held.left_seconds(), self._held.lease.id
        if left is None or self._held.countdown is None:
            return None
        if left <= 0:
            return f"lease {name} expired"
        length = self._held.countdown.end.length_seconds
        if left <= min(WARN_SECONDS, length / 4) and not self._warned:
            self._warned = True
            more = f"to extend it: andon lease extend {name} --for 1h"
            self._notify(f"lease {name} ends in {human_seconds(left)}; {more}")
        return None


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


def _where(begin: RunBegin) -> str:
    return title(", ".join(device.label for device in begin.devices))


def _outcome(end: CommandEnd, judged: Verdict) -> RunOutcome:
    return RunOutcome(
        judged.end, end.code, end.signal, judged.words, judged.reported_by, round(end.seconds, 3)
    )


def command_name(command: Sequence[str]) -> str:
    """The script's name rather than its interpreter's."""
    first = Path(command[0]).name
    if first.startswith("python") and len(command) > 1 and not command[1].startswith("-"):
        return Path(command[1]).name
    return first
