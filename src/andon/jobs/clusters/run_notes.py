"""Where the records of clusters' jobs are: a note beside a job's output, which the job writes.

A cluster forgets a job some time after its end. What its record says then remains.
"""

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from andon.errors import AndonError
from andon.host.files import names_in, read_regular
from andon.jobs.folder import write_whole
from andon.model.codec import Name, Text, Time, Wrong, read
from andon.model.job.cluster import ClusterId, ClusterJob, ClusterTask
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
    """Notes that the job has ended: notes are looked for by their time."""
    with suppress(OSError):
        os.utime(Path(note.task.notes) / (note.job + SUFFIX))


def note_of(folder: Path, job: str, own: bool = True) -> RunNote | None:
    """Returns a job's note; None if it has none, or none that can be read. It is `own` where the
    cluster runs a job as the user who submits it."""
    with suppress(OSError, Wrong):
        found = folder / (job + SUFFIX)
        value = {} if "/" in job else loads(read_regular(found, _NOTE_BYTES, own=own))
        if value.get("schema") == SCHEMA:
            return read(RunNote, value)
    return None


def noted_jobs(folder: Path, since: float) -> list[str]:
    """Returns the jobs with a note that began or ended since then."""
    found = []
    for name in names_in(folder, MOST_NOTES):
        with suppress(OSError):
            if name.endswith(SUFFIX) and os.lstat(folder / name).st_mtime >= since:
                found.append(name.removesuffix(SUFFIX))
    return found


def recorded_job(note: RunNote) -> ClusterJob:
    """Returns a job that its cluster no longer knows, as its record has it."""
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
        reason=NO_END if end is None else _words(end),
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


def _words(end: RunEnd) -> str | None:
    if end.state is RunState.SUCCEEDED:
        return None
    killed = f"killed by signal {end.signal}" if end.signal else f"exit code {end.exit_code}"
    return end.message or killed
