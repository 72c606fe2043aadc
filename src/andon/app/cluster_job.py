"""Runs a cluster's job on its node, and records it; `standalone/cluster_start.py` calls it.

The cluster chose the devices: they are those that the masks leave, and a lease is taken on them and
on no others. Nothing of ours keeps the command from running: without a lease, or without a record,
it runs all the same.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType

from msgspec import Struct
from msgspec.structs import replace

from andon.app.leases import open_availability
from andon.app.runs import recording
from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.errors import AndonError, Conflict
from andon.host.files import read_tail
from andon.host.state.user_folder import runs_folder
from andon.host.users import user_name
from andon.jobs.clusters.run_notes import RunNote, touch_note, write_note
from andon.jobs.metrics import MetricReader
from andon.leases.availability import Availability, BookContents
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms
from andon.leases.placement import Placement
from andon.leases.rules.capacity import DeviceCapacity
from andon.leases.rules.choice import obstacle
from andon.leases.rules.eligibility import given_devices, no_gpu
from andon.leases.rules.environment import LEASE_VARIABLE
from andon.model.codec import read
from andon.model.device import Snapshot
from andon.model.job.cluster import ClusterTask
from andon.model.job.device_request import DeviceRequest
from andon.model.job.spec import loads
from andon.model.lease import Need
from andon.model.naming import titles
from andon.model.redaction import redact
from andon.model.run.record import RunEvent, RunKind
from andon.runs.header import place_of
from andon.runs.record import RunRecorder
from andon.runs.rules.ranks import RECORD_VARIABLE
from andon.work.output_tail import TAIL_BYTES
from andon.work.preparing import CannotStart, find
from andon.work.session import CommandWork

GIVEN_BACK = 75
NO_BOOK = BookContents()
GIVE_BACK_SECONDS = 30.0
KILLED_SECONDS = 120.0
"""How long a job that was given back waits for the cluster to end it."""


class _Place(Struct, frozen=True):
    """The devices of a job, why they cannot be sampled, and who else is on them."""

    placement: Placement
    unsampled: str | None = None
    strangers: tuple[str, ...] = ()
    unleased: str | None = None  # why it has no lease, where nobody else is on them


def main(argv: Sequence[str]) -> int:
    task, job, command = read(ClusterTask, loads(argv[0])), argv[1], argv[2:]
    begun = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, partial(_ended, begun))
    try:
        find(command)
        return _run(task, job, command, begun)
    except CannotStart as error:
        _print(error.reason)
        return error.code
    except AndonError as error:
        _print(f"no record of this job: {error.reason}")
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], list(command))  # noqa: S606 - as it was given


def _ended(begun: threading.Event, number: int, frame: FrameType | None) -> None:
    """Ends this process before the command; once that has ended, its record is still to come."""
    if not begun.is_set():
        os._exit(128 + number)


def _run(task: ClusterTask, job: str, command: Sequence[str], running: threading.Event) -> int:
    settings = load_settings({}).settings
    with open_sampler(settings) as sampler:
        sampler.begin()
        availability = open_availability(
            settings, lambda: sampler.once(with_host=False), simulated=False
        )
        place = _place(availability, task, redact(tuple(command)))
        if place.unleased is not None:
            _print(f"without a lease: {place.unleased}")
        for details in place.strangers:
            _print(f"{task.cluster} gave this job a GPU that is in use: {details}")
        if place.strangers and task.if_busy and _gave_back(task.if_busy):
            place.placement.release()
            time.sleep(KILLED_SECONDS)
            return GIVEN_BACK
        notes, printed = list[RunNote](), list[_Figures]()

        def begun(recorder: RunRecorder) -> None:
            running.set()
            for details in place.strangers:
                recorder.write(RunEvent(time.time(), "stranger", {"device": details}))
            begin = recorder.begin
            if task.metrics or task.stop_when:
                printed.append(_Figures(task, recorder))
            if not begin.rank or task.collected:
                user = begin.user or user_name(os.getuid())
                run, path = begin.id, str(recorder.path.absolute())
                if task.collected:
                    run, path = begin.parent or run, os.environ.get(RECORD_VARIABLE, path)
                notes.append(RunNote(job, task, run, path, user, begin.at))
                write_note(notes[0])

        work = CommandWork(
            command,
            settings,
            replace(
                recording(settings, sampler, _print, _folder(task)), indexed=not task.collected
            ),
            task.name,
            kind=RunKind.JOB,
            more={
                "tags": task.tags,
                "params": {**task.params, "job": f"{task.cluster}:{job}"},
                "allocation_method": task.cluster,
                **_group(task, job),
            },
            unsampled=place.unsampled,
            begun=begun,
            output=partial(_output, task, job, printed) if task.quiet else None,
            quiet=task.quiet,
            forwards=task.forwards,
            hopeless=lambda: printed[0].hopeless() if printed else None,
        )
        try:
            return work.run(place.placement)[0]
        finally:
            for note in notes:
                touch_note(note)


class _Figures:
    """The figures that the command prints into the file that is our output too."""

    def __init__(self, task: ClusterTask, recorder: RunRecorder) -> None:
        self._recorder = recorder
        output = Path("/proc/self/fd/1").readlink()
        self._reader = MetricReader(task, output, recorder.path)
        if task.metrics and not output.is_file():
            details = {"reason": "its output is not a file"}
            recorder.write(RunEvent(time.time(), "--metric is not read", details))

    def hopeless(self) -> str | None:
        """Records what was printed since; returns why the command is hopeless, if it is."""
        self._write(last=False)
        why = self._reader.hopeless(time.time() - self._recorder.begin.at)
        if why is not None:
            self._recorder.write(RunEvent(time.time(), why))
        return why

    def finish(self) -> None:
        while self._write(last=True):
            pass
        self._reader.close()

    def _write(self, last: bool) -> bool:
        lines = self._reader.read(last)
        for line in lines:
            self._recorder.write(line)
        return bool(lines)


def _place(availability: Availability, task: ClusterTask, command: str) -> _Place:
    """Returns the devices that the cluster gave, with a lease on them if that is possible. The
    masks stay as the cluster set them."""
    view = availability.view()
    snapshot = view.snapshot
    given = given_devices(snapshot)
    nowhere = Placement(environment={}, snapshot=snapshot)
    if not given:
        why = "none of its devices is visible" if snapshot.devices else None
        return _Place(nowhere, why or no_gpu(snapshot.faults).reason)
    if len(given) > task.gpus:
        why = f"{len(given)} GPUs are visible and {task.gpus} were given to it: which is not known"
        return _Place(nowhere, why)
    count, uuids = len(given), tuple(device.uuid for device in given)
    request = DeviceRequest(count, count, devices=uuids, balanced=False, even_if_used=True)
    try:
        grant = Granter(Book(), availability).grant(request, LeaseTerms(command=command), 0.0)
    except Conflict as error:
        names = tuple(f"{titles(snapshot.devices)[uuid]}: " for uuid in uuids)
        barred = tuple(line for line in error.mistakes if line.startswith(names))
        return _Place(Placement(given, {}, snapshot), strangers=() if task.shares else barred)
    except AndonError as error:
        found = [one for one in availability.capacities(view, NO_BOOK) if one.uuid in uuids]
        held = Placement(given, {}, snapshot)
        return _Place(held, None, _strangers(snapshot, found), error.reason)
    strangers = _strangers(snapshot, grant.candidates.choice.chosen)
    return _Place(replace(grant, environment={LEASE_VARIABLE: grant.lease.id}), strangers=strangers)


def _strangers(snapshot: Snapshot, found: Sequence[DeviceCapacity]) -> tuple[str, ...]:
    """Returns who is on the devices."""
    names, need = titles(snapshot.devices), Need(frozenset(one.uuid for one in found))
    barred = {one.uuid: obstacle(one, need) for one in found}
    return tuple(f"{names[uuid]}: {bar.reason}" for uuid, bar in barred.items() if bar is not None)


def _gave_back(line: str) -> bool:
    try:
        done = subprocess.run(
            ["sh", "-c", line], stdin=subprocess.DEVNULL, timeout=GIVE_BACK_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _folder(task: ClusterTask) -> Path | None:
    """Returns where the record goes: into the folder of the submission where that is ours, else
    into our own, which is None, or beside the output."""
    wanted, home = Path(task.runs), runs_folder()
    above = wanted.parent
    if wanted != home and os.access(above, os.W_OK) and above.stat().st_uid == os.getuid():
        return wanted
    while not home.exists() and home != home.parent:
        home = home.parent
    return None if os.access(home, os.W_OK) else Path(task.notes)


def _group(task: ClusterTask, job: str) -> dict[str, str | int]:
    """Returns what the run belongs to, unless it is a rank: a group that was given, or an array."""
    array, _, index = job.partition("_")
    found = task.group or (f"{task.cluster}:{array}" if index else None)
    if found is None or place_of(os.environ).group:
        return {}
    return {"group": found, "rank": int(index)} if index and task.group else {"group": found}


def _output(task: ClusterTask, job: str, printed: Sequence[_Figures]) -> str:
    """Returns the end of its output, once the command has ended."""
    for one in printed:
        one.finish()
    return read_tail(Path(task.notes) / f"{job}.out", TAIL_BYTES)


def _print(text: str) -> None:
    with suppress(OSError):
        print(f"andon: {text}", file=sys.stderr, flush=True)
