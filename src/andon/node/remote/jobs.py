"""The desk of a server: the jobs that it shows to this user."""

from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import quote

from msgspec import Struct

from andon.errors import AndonError, Denied
from andon.jobs.rules.polling import FRESH_SECONDS
from andon.jobs.rules.views import JobListing
from andon.model.codec import Name, Text, Wrong, read
from andon.model.job.cluster import ClusterState
from andon.model.job.desk import (
    Able,
    Accepted,
    Found,
    JobAct,
    JobOutcome,
    JobReason,
    JobWord,
    LogPart,
    Submission,
)
from andon.model.job.facts import JobView
from andon.node.rest import RestServer

SHOWN_JOBS = 200
_ROUTES = {JobAct.FIRST: "move?to=first", JobAct.LAST: "move?to=last"}
T = TypeVar("T")


class _Page(Struct, frozen=True):
    """The fields of a server's page that a list shows."""

    jobs: list[JobView]
    paused: bool
    clusters: list[ClusterState] = []
    note: Text | None = None


class _Done(Struct, frozen=True):
    outcome: Name
    note: Text | None = None


class ServerDesk:
    """Implements JobDesk; fields hidden from this user are absent."""

    name, able, poll_seconds = "server", frozenset({Able.QUEUED}), FRESH_SECONDS

    def __init__(self, server: RestServer) -> None:
        self._server = server

    def submit(self, jobs: Sequence[Submission], dry: bool = False) -> Sequence[Accepted]:
        raise Denied(
            "jobs are submitted on the machine itself", hint="or as a job file: POST /api/jobs"
        )

    def listing(self, everyone: bool = False) -> JobListing:
        found = self._read(_Page, "/api/jobs", limit=SHOWN_JOBS)
        notes = [f"{one.name}: {one.trouble}" for one in found.clusters if one.trouble]
        notes += [found.note] if found.note else []
        return JobListing.of(found.jobs, found.paused, notes, found.clusters)

    def find(self, words: Sequence[JobWord], act: JobAct | None = None) -> Found:
        listed = {word: view for view in self.listing().views for word in (view.label, view.number)}
        views, errors = list[JobView](), list[AndonError]()
        for word in words:
            try:
                views.append(listed.get(word) or self._read(JobView, _path(word)))
            except AndonError as error:
                errors.append(error)
        return Found(views, errors)

    def act(self, act: JobAct, words: Sequence[JobWord]) -> list[JobOutcome]:
        out = list[JobOutcome]()
        for word in words:
            try:
                said = self._server.post(f"{_path(word)}/{_ROUTES.get(act, act.value)}")
                done = read(_Done, said)
            except AndonError as error:
                out.append(JobOutcome(str(word), error=error))
            else:
                out.append(JobOutcome(str(word), done.outcome, note=done.note))
        return out

    def log(
        self, job: JobWord, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        asked = {"start": start, "attempt": attempt}
        given = {name: value for name, value in asked.items() if value is not None}
        return self._read(LogPart, f"{_path(job)}/log", **given)

    def reasons(self, job: JobWord) -> list[JobReason]:
        view = self._read(JobView, _path(job))
        lines = (view.reason or view.error, *view.waiting_details)
        return [JobReason(line) for line in lines if line]

    def _read(self, kind: type[T], path: str, **asked: int) -> T:
        try:
            found: T = read(kind, self._server.get(path, **asked))
        except Wrong as exc:
            raise self._server.of_another_version(f"a job is not as expected: {exc}") from exc
        return found


def _path(job: JobWord) -> str:
    return f"/api/jobs/{quote(str(job), safe=':_')}"
