"""Notes about jobs that were submitted to clusters, in the folder of jobs.

A note is written before the job is submitted, its id when it is known, and a line for each of its
jobs that ended: what a cluster forgets stays known. None is rewritten. So a job whose submission
was interrupted is found again by its label.
"""

import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from andon.errors import AndonError, Unavailable
from andon.host.files import make_private, names_in, open_regular, read_regular
from andon.jobs.folder import (
    SUBMISSIONS,
    open_jobs_folder,
    own_jobs_folder,
    unwritable,
    write_whole,
)
from andon.jobs.rules.polling import PAST_SECONDS
from andon.model.codec import Wrong, read, shown, to_json
from andon.model.job import is_host
from andon.model.job.cluster import ClusterJob, NotSent, SubmissionNote
from andon.model.job.desk import (
    Submission,
)
from andon.model.job.facts import JobState
from andon.model.job.spec import (
    LARGEST_JOB_BYTES,
    dumps,
    loads,
    spec_to_json,
)
from andon.ports import Cluster, Offering

NOTE, ID, ENDS = ".json", ".id", ".ends"
SCHEMA = "andon.submission/1"
MOST_NOTES = 10_000
_ID_BYTES, _ENDS_BYTES = 4096, 16 << 20


def submit_once(name: str, cluster: Cluster, submission: Submission) -> str:
    """Submits a job to the named cluster, with its note; returns its id. A label stands for one
    job: one whose id is noted is not sent again, and if there was no answer the cluster looks for
    the label first."""
    try:
        folder = _made()
        note = folder / (submission.label + NOTE)
        if (again := note.exists()) and (known := _id(folder, submission.label)) is not None:
            return known
        _write_note(folder, note.name, _text(name, cluster.identity, submission))
    except Unavailable as error:
        raise NotSent(error.reason, error.hint) from error
    try:
        found = cluster.submit(submission, again)
    except AndonError as error:
        # One that got no answer may have been taken all the same, now or before.
        if not isinstance(error, Unavailable) or (isinstance(error, NotSent) and not again):
            with suppress(OSError):
                note.unlink()
        raise
    with suppress(OSError):  # it is found by its label as well
        write_whole(folder, submission.label + ID, found)
    return found


def submit_together(name: str, host: Offering, submissions: Sequence[Submission]) -> list[str]:
    """Submits new jobs in one call, with their notes; returns their ids."""
    try:
        folder = _made()
        for one in submissions:
            _write_note(folder, one.label + NOTE, _text(name, host.identity, one))
    except Unavailable as error:
        raise NotSent(error.reason, error.hint) from error
    try:
        found = host.submit_all(submissions)
    except AndonError as error:
        if not isinstance(error, Unavailable) or isinstance(error, NotSent):
            for one in submissions:
                forget_note(one.label)
        raise
    for one, id_ in zip(submissions, found, strict=True):
        with suppress(OSError):
            write_whole(folder, one.label + ID, id_, sync=False)
    return found


def recent_notes(since: float) -> list[SubmissionNote]:
    """The notes of this user's submissions since then, oldest first; unreadable ones are left
    out."""
    folder = own_jobs_folder().path / SUBMISSIONS
    found = []
    for name, written in _names(folder):
        if written >= since:
            with suppress(OSError, Wrong):
                found.append(_note(folder, name))
    return sorted(found, key=lambda note: note.at)


def hosts_with_jobs() -> list[str]:
    """Returns the hosts that have jobs whose end is not known, or that got some of late."""
    late = time.time() - PAST_SECONDS
    notes = [one for one in recent_notes(0.0) if is_host(one.cluster)]
    return list(dict.fromkeys(one.cluster for one in notes if one.at > late or not one.ends))


def sweep_notes(before: float) -> None:
    """Deletes the notes of jobs that were submitted before this time."""
    folder = own_jobs_folder().path / SUBMISSIONS
    for name, written in _names(folder):
        if written < before:
            forget_note(name)


def forget_note(label: str) -> None:
    """Deletes the note of a job that was deleted on its cluster."""
    for suffix in (NOTE, ID, ENDS):
        with suppress(OSError):
            (own_jobs_folder().path / SUBMISSIONS / (label + suffix)).unlink()


def keep_ends(notes: Iterable[SubmissionNote], jobs: Sequence[ClusterJob]) -> None:
    """Appends jobs that have ended to the notes of their submissions, each once."""
    by_label = {note.submission.label: note for note in notes}
    ends = [end for note in by_label.values() for end in note.ends]
    known = {(end.id, end.state, end.ended is not None) for end in ends}
    for job in jobs:
        note = by_label.get(job.label or "") if job.state.is_settled else None
        how = {(job.id, job.state, True), (job.id, job.state, job.ended is not None)}
        if note is not None and not how & known:
            with suppress(OSError):
                _append(own_jobs_folder().path / SUBMISSIONS / (note.submission.label + ENDS), job)


def known_end(cluster: str, job: str) -> ClusterJob | None:
    """Returns how a job ended, as far as that was noted."""
    notes = [note for note in recent_notes(0.0) if note.cluster == cluster]
    return next((end for note in notes for end in reversed(note.ends) if end.id == job), None)


def note_cancelled(cluster: str, ids: Collection[str]) -> None:
    """Notes that jobs were cancelled, without a time of end: a cluster may forget jobs that never
    began."""
    for note in recent_notes(0.0):
        if note.cluster == cluster and note.id and note.id in ids and not note.submission.indices:
            spec = note.submission.job
            end = ClusterJob(note.id, spec.name, JobState.CANCELLED, spec.user, note.at,
                             gpus=spec.request.least, label=note.submission.label)  # fmt: skip
            keep_ends([note], [end])


def _append(path: Path, job: ClusterJob) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with os.fdopen(open_regular(path, flags, own=True), "ab") as file:
        file.write(f"{dumps(to_json(job))}\n".encode())


def _ends(path: Path) -> tuple[ClusterJob, ...]:
    """Returns the jobs of a submission that are known to have ended; a torn line is left out."""
    found = list[ClusterJob]()
    with suppress(OSError):
        for line in read_regular(path, _ENDS_BYTES, own=True).splitlines():
            with suppress(Wrong):
                found.append(read(ClusterJob, loads(line)))
    return tuple(found)


def _made() -> Path:
    folder = open_jobs_folder().path / SUBMISSIONS
    try:
        make_private(folder)
    except OSError as exc:
        raise unwritable(folder, exc) from exc
    return folder


def _write_note(folder: Path, name: str, text: str) -> None:
    try:
        write_whole(folder, name, text)
    except OSError as exc:
        raise unwritable(folder, exc) from exc


def _names(folder: Path) -> Iterator[tuple[str, float]]:
    """Yields the label of each note, and when it was written."""
    for name in names_in(folder, MOST_NOTES):
        if name.endswith(NOTE) and not name.startswith("."):
            with suppress(OSError):
                yield name.removesuffix(NOTE), os.lstat(folder / name).st_mtime


def _text(name: str, identity: str, submission: Submission) -> str:
    job = spec_to_json(replace(submission.job, number=1, environment={}))  # none, but one is needed
    submitted = {**to_json(submission), "job": job}
    note = {"cluster": name, "identity": identity, "at": time.time(), "submission": submitted}
    return dumps({"schema": SCHEMA, **note})


def _note(folder: Path, name: str) -> SubmissionNote:
    value = loads(read_regular(folder / (name + NOTE), LARGEST_JOB_BYTES + _ID_BYTES))
    if value.get("schema") != SCHEMA:
        raise Wrong("schema", f"is {shown(value.get('schema'))}, not {SCHEMA!r}")
    note = read(SubmissionNote, {**value, "id": _id(folder, name)})
    return replace(note, ends=_ends(folder / (name + ENDS)))


def _id(folder: Path, label: str) -> str | None:
    with suppress(OSError):
        return read_regular(folder / (label + ID), _ID_BYTES).decode("utf-8", "replace")
    return None
