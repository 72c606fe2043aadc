"""Submits jobs to the queue of one machine and reads it, each call over a connection of ssh.

The machine is asked as the person who calls, through `andon` there; see andon.cli.ssh.far_desk.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from andon.clusters.ssh.copying import CopiedFolder, copied_folder
from andon.errors import Gone, Invalid, Unavailable
from andon.jobs.clusters.asking import uncounted
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.rules.host_choice import offer_text, preview_text
from andon.jobs.submitting import PREFIXES
from andon.model import wire
from andon.model.codec import Wrong, read
from andon.model.job import HOST
from andon.model.job.cluster import (
    ClusterId,
    ClusterJob,
    ClusterNode,
    HostOffer,
    NoteFolder,
    NotSent,
)
from andon.model.job.desk import (
    Able,
    LogPart,
    Submission,
)
from andon.model.job.spec import spec_to_json
from andon.model.shapes import to_json
from andon.node.ssh.client import SshHost
from andon.node.ssh.failures import NotConnected
from andon.settings.clusters import ClusterSettings
from andon.units import counted, human_bytes

T = TypeVar("T")
SYNC: Final = "sync"
"""The one engine option: the folder is copied to the host first."""
ABLE = (QueueDesk.able - {Able.UNIQUE, Able.QUEUED, Able.RESERVATION}) | {
    Able.ENGINE_OPTIONS,
    Able.PREVIEW,
}
INSTEAD: Final = {
    Able.UNIQUE: "look first: andon jobs --on ssh:HOST",
    Able.PER_GPU: "start the processes in the command itself",
}
MOST_REQUEST_BYTES: Final = 120_000
"""The request reaches andon there as a variable, which may be 128 KiB long."""
MOST_BATCH_BYTES: Final = 100_000


class SshQueue:
    """Implements ports.Cluster, Previewing and Offering with the queue of one machine."""

    title, able, instead = "a host over SSH", ABLE, INSTEAD
    shared_folder: str | None = None
    notes: NoteFolder | None = None  # the queue itself says which records its jobs have

    def __init__(self, settings: ClusterSettings) -> None:
        name = settings.name.removeprefix(HOST)
        if name == settings.name:
            raise Invalid("no host is named", hint=f"--on {HOST}n17,n18, or {HOST}@GROUP")
        path = str(settings.options.get("andon", ""))
        self._host = SshHost(name, path, settings.timeout_seconds)
        self._copied: dict[tuple[str, str], CopiedFolder] = {}

    # The port.

    @property
    def identity(self) -> str:
        return self._host.url

    def submit(self, submission: Submission, again: bool = False) -> str:
        return self.submit_all([submission])[0]

    def jobs(self, since: float, everyone: bool = False) -> Sequence[ClusterJob]:
        return [self._named(one) for one in self._read(tuple[ClusterJob, ...], "jobs", since)]

    def job(self, job: str) -> ClusterJob:
        found = [one for one in self.jobs(0.0) if job in (one.id, one.array)]
        if not found:
            raise Gone(f"{self._host.name} knows no job {job[:60]}")
        return next((one for one in found if not one.state.is_settled), found[0])

    def cancel(self, ids: Sequence[str]) -> None:
        self._read(tuple[str, ...], "cancel", list(ids))

    def log(self, job: str, start: int | None, most_bytes: int) -> LogPart:
        return self._read(LogPart, "log", job, start, most_bytes)

    def nodes(self) -> Sequence[ClusterNode]:
        found = self._read(ClusterNode, "node")
        return [replace(found, name=self._host.name, host=found.name)]

    # What else it can do.

    def offers(self, submissions: Sequence[Submission]) -> Sequence[HostOffer]:
        sent = [_sent(one) for one in submissions]
        return self._as_many(self._read(tuple[HostOffer, ...], "offers", sent), sent)

    def batches(self, submissions: Sequence[Submission]) -> Iterator[list[Submission]]:
        batch, size = list[Submission](), 0
        for one in submissions:
            length = _bytes(_sent(one))
            if batch and size + length > MOST_BATCH_BYTES:
                yield batch
                batch, size = [], 0
            batch.append(one)
            size += length
        yield batch

    def submit_all(self, submissions: Sequence[Submission]) -> list[str]:
        sent = [_sent(self._with_copy(one)) for one in submissions]
        try:
            found = self._read(tuple[ClusterId, ...], "submit", sent)
        except NotConnected as exc:
            raise NotSent(exc.reason, exc.hint) from exc
        return list(self._as_many(found, sent))

    def preview(self, submission: Submission) -> str:
        (offer,) = self.offers([submission])
        return preview_text(submission, [f"{self._host.name} {offer_text(offer)}"])

    def placed(self, submission: Submission) -> str:
        copied = self._copied.get(_copy_key(submission))
        if copied is None:
            return ""
        size = f"{counted(copied.files, 'file')}, {human_bytes(copied.bytes)}"
        return f"its folder was copied to {copied.path} ({size})"

    # Over ssh.

    def _read(self, kind: type[T], call: str, *arguments: object) -> T:
        if (size := _bytes(arguments)) > MOST_REQUEST_BYTES:
            why = f"this job is too large to be sent: {size:,} bytes as JSON"
            raise Invalid(why, hint="put its words into a file")
        try:
            return read(kind, self._host.desk(call, *arguments))
        except Wrong as exc:
            raise self._host.of_another_version(f"a job is not as expected: {exc}") from exc

    def _as_many(self, found: Sequence[T], asked: Sequence[object]) -> Sequence[T]:
        if len(found) != len(asked):
            raise self._host.of_another_version(f"{len(found)} answers to {len(asked)} jobs")
        return found

    def _named(self, job: ClusterJob) -> ClusterJob:
        """Adds the name of the host to the devices of a job."""
        return replace(job, where=f"{self._host.name} {job.where}") if job.where else job

    def _with_copy(self, submission: Submission) -> Submission:
        """Copies the folder, if that is asked for, once for all jobs that belong together."""
        if unknown := [one for one in submission.options if one != SYNC]:
            raise Invalid(f"a host has no option {unknown[0][:40]}", hint="--sync")
        if SYNC not in submission.options:
            return submission
        key, folder = _copy_key(submission), submission.job.folder
        if key not in self._copied:
            try:
                with uncounted():
                    self._copied[key] = copied_folder(self._host, folder, submission.label)
            except Unavailable as exc:
                raise NotSent(exc.reason, exc.hint) from exc
        there = replace(submission.job, folder=self._copied[key].path)
        return replace(submission, job=there, options=())


def _bytes(value: object) -> int:
    try:
        return len(wire.struct_text(value).encode())
    except UnicodeEncodeError as exc:
        why = "a name or a word of this job is not UTF-8: it cannot be sent to a host"
        raise Invalid(why, hint="rename it") from exc


def _copy_key(submission: Submission) -> tuple[str, str]:
    return submission.job.folder, submission.job.group or submission.label


def _sent(submission: Submission) -> dict[str, object]:
    """Returns what the host needs to know: of the environment only what this job sets, and where
    its programs are."""
    job = submission.job
    own = {
        name: value
        for name, value in job.environment.items()
        if os.environ.get(name) != value or name in (*submission.variables, *PREFIXES)
    }
    value: Mapping[str, object] = to_json(submission)
    return {**value, "job": spec_to_json(replace(job, number=1, environment=own, masks={}))}
