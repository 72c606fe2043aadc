"""Where the records of clusters' jobs are: a note beside a job's output, which the job writes.

A cluster forgets a job some time after its end. What its record says then remains.
"""

import os
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import AndonError
from andon.host.files import names_in, read_regular
from andon.jobs.folder import write_whole
from andon.model.codec import Name, Text, Time, Wrong, read
from andon.model.job.cluster import ClusterId, ClusterJob, ClusterTask, NoteFolder
from andon.model.job.facts import JobState
from andon.model.job.spec import dumps, loads
from andon.model.run.record import RunBegin, RunEnd, RunState
from andon.model.shapes import to_json
from andon.runs.files import read_ends
from andon.units import whole_number

SUFFIX = ".run"
SCHEMA = "andon.cluster-run/1"
MOST_NOTES = 100_000
NO_END = "its record has no end: it was killed, or its node failed"
_NOTE_BYTES = 64 * 1024
_STATES = {
    RunState.SUCCEEDED: JobState.SUCCEEDED,
    RunState.STOPPED: JobState.CANCELLED,
    RunState.TIMEOUT: JobState.TIMED_OUT,
}


class RunNote(Struct, frozen=True):
    """A job, its task and its record."""

    job: ClusterId
    task: ClusterTask
    run: Name
    record: Text
    user: Name
    at: Time


def write_note(note: RunNote) -> None:
    """Writes the note beside the job's output, if that is possible."""
    with suppress(OSError):
        text = dumps({"schema": SCHEMA, **to_json(note)})
        write_whole(Path(note.task.notes), note.job + SUFFIX, text, sync=False)


def touch_note(note: RunNote) -> None:
    """Sets the note's file time, when the job has ended: it tells which notes to read."""
    with suppress(OSError):
        os.utime(Path(note.task.notes) / (note.job + SUFFIX))


def with_run(folder: NoteFolder | None, job: ClusterJob) -> ClusterJob:
    """Adds the record of a job that andon submitted and that has begun. Only the record says that a
    rule stopped the job: the cluster knows just the signal."""
    if folder is None or job.label is None or job.started is None:
        return job
    if (note := note_of(folder, job.id)) is None:
        return job
    reason = job.reason
    if note.task.stop_when and folder.own and job.state.is_settled and reason is not None:
        recorded = recorded_job(note)
        reason = reason if recorded.ended is None else recorded.reason or reason
    return replace(job, run=note.run, reason=reason)


def forgotten_jobs(
    folder: NoteFolder | None, since: float, known: Container[str]
) -> list[ClusterJob]:
    """Returns the jobs that began or ended since then and that their cluster has forgotten, from
    their records."""
    found = list[ClusterJob]()
    if folder is None or not folder.own:
        return found
    place = Path(folder.path)
    for name in names_in(place, MOST_NOTES):
        job = name.removesuffix(SUFFIX)
        with suppress(OSError):
            if job != name and job not in known and os.lstat(place / name).st_mtime >= since:
                note = note_of(folder, job)
                found += [] if note is None else [recorded_job(note)]
    return [job for job in found if job.ended is None or job.ended > since]


def note_of(folder: NoteFolder, job: str) -> RunNote | None:
    """Returns a job's note; None if it has none that can be read."""
    with suppress(OSError, Wrong):
        found = Path(folder.path) / (job + SUFFIX)
        value = {} if "/" in job else loads(read_regular(found, _NOTE_BYTES, own=folder.own))
        if value.get("schema") == SCHEMA:
            return read(RunNote, value)
    return None


def recorded_job(note: RunNote) -> ClusterJob:
    """Returns a job that its cluster no longer knows, from its record."""
    task, begin, end = note.task, None, None
    with suppress(AndonError):
        fold = read_ends(Path(note.record), 0).fold
        begin, end = fold.begin, fold.end
    array, _, index = note.job.partition("_")
    return ClusterJob(
        id=note.job,
        name=task.name,
        state=JobState.LOST if end is None else _STATES.get(end.state, JobState.FAILED),
        user=note.user,
        submitted_at=task.submitted_at,
        gpus=task.gpus,
        where=None if begin is None else _place(begin),
        reason=NO_END if end is None else _end_text(end),
        label=task.label,
        array=array if index else None,
        array_index=whole_number(index, 9),
        started=note.at,
        ended=None if end is None else end.at,
        exit_code=None if end is None or end.signal else end.exit_code,
        signal=None if end is None else end.signal or None,
        run=note.run,
    )


def _place(begin: RunBegin) -> str:
    labels = ", ".join(device.label for device in begin.devices)
    return f"{begin.node} GPU {labels}" if labels else begin.node


def _end_text(end: RunEnd) -> str | None:
    if end.state is RunState.SUCCEEDED:
        return None
    killed = f"killed by signal {end.signal}" if end.signal else f"exit code {end.exit_code}"
    return end.message or killed
