"""Notes about jobs that were submitted to clusters, in the folder of jobs.

A note is written before the job is submitted, and its id when it is known; neither is rewritten.
So a job whose submission was interrupted is found again by its label.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from andon.errors import AndonError, Invalid, Unavailable
from andon.host.files import make_private, names_in, read_regular
from andon.jobs.clusters.asking import NotSent
from andon.jobs.folder import (
    SUBMISSIONS,
    open_jobs_folder,
    own_jobs_folder,
    unwritable,
    write_whole,
)
from andon.model.codec import Wrong, read, shown
from andon.model.job.cluster import Submission, SubmissionNote
from andon.model.job.spec import (
    LARGEST_JOB_BYTES,
    dumps,
    loads,
    plain_fields,
    spec_to_json,
)
from andon.ports import Cluster

NOTE, ID = ".json", ".id"
SCHEMA = "andon.submission/1"
MOST_NOTES = 10_000
_ID_BYTES = 4096


def submit_once(name: str, cluster: Cluster, submission: Submission) -> str:
    """Submits a job to the named cluster, with its note; returns its id."""
    job = submission.job
    if (job.metrics or job.stop_when) and not getattr(cluster, "reads_figures", False):
        raise Invalid(
            "no andon runs inside its jobs, which --metric and --stop-when need",
            hint="let the program log its figures: andon.run().log(loss=…)",
        )
    try:
        folder = _made()
        note = folder / (submission.label + NOTE)
        again = note.exists()
        _write_note(folder, note.name, _text(name, submission))
    except Unavailable as error:
        raise NotSent(error.reason, error.hint) from error
    try:
        found = cluster.submit(submission)
    except AndonError as error:
        # One that got no answer may have been taken all the same, now or before.
        if not isinstance(error, Unavailable) or (isinstance(error, NotSent) and not again):
            with suppress(OSError):
                note.unlink()
        raise
    with suppress(OSError):  # it is found by its label as well
        write_whole(folder, submission.label + ID, found)
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


def sweep_notes(before: float) -> None:
    """Deletes the notes of jobs that were submitted before this time."""
    folder = own_jobs_folder().path / SUBMISSIONS
    for name, written in _names(folder):
        if written < before:
            forget_note(name)


def forget_note(label: str) -> None:
    """Deletes the note of a job that its cluster was told to forget."""
    for suffix in (NOTE, ID):
        with suppress(OSError):
            (own_jobs_folder().path / SUBMISSIONS / (label + suffix)).unlink()


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


def _text(name: str, submission: Submission) -> str:
    job = spec_to_json(replace(submission.job, number=1, environment={}))  # none, but one is needed
    told = {**plain_fields(submission), "job": job}
    return dumps({"schema": SCHEMA, "cluster": name, "at": time.time(), "submission": told})


def _note(folder: Path, name: str) -> SubmissionNote:
    value = loads(read_regular(folder / (name + NOTE), LARGEST_JOB_BYTES + _ID_BYTES))
    if value.get("schema") != SCHEMA:
        raise Wrong("schema", f"is {shown(value.get('schema'))}, not {SCHEMA!r}")
    found = None
    with suppress(OSError):
        found = read_regular(folder / (name + ID), _ID_BYTES).decode("utf-8", "replace")
    return read(SubmissionNote, {**value, "id": found})
