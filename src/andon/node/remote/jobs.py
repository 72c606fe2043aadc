"""The desk of a server: the jobs that it shows to this user."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from andon.errors import AndonError, Denied, Invalid
from andon.jobs.rules.cluster_views import ids_of
from andon.jobs.rules.naming import meant, name_rule
from andon.jobs.rules.views import JobListing, listing_of_page, reasons_of
from andon.model.codec import Name, Text, Wrong, read
from andon.model.job import SEPARATOR
from andon.model.job.cluster import ClusterState
from andon.model.job.desk import (
    MOST_LOG_BYTES,
    Able,
    Accepted,
    Found,
    JobAct,
    JobName,
    JobOutcome,
    JobReason,
    LogPart,
    Submission,
)
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobFacts, JobView
from andon.model.job.spec import ArrayPlace, JobSpec
from andon.node.rest import RestServer
from andon.units import sh

POLL_SECONDS = 1.0
SHOWN_JOBS, KNOWN_JOBS = 200, 1000  # listed, and among which a name is looked for
EVERYONE = "everyone"
_ROUTES = {JobAct.FIRST: "move?to=first", JobAct.LAST: "move?to=last"}
T = TypeVar("T")


class _Page(Struct, frozen=True):
    """The fields of a server's page that a list shows."""

    jobs: list[JobView]
    paused: bool
    clusters: list[ClusterState] = []
    note: Text | None = None
    user: Text = ""
    scope: Name = ""


class _Done(Struct, frozen=True):
    outcome: Name
    note: Text | None = None


class ServerDesk:
    """Implements JobDesk; fields hidden from this user are absent. `tell` is called with a sentence
    if several jobs have the name."""

    name, able, poll_seconds = "server", frozenset({Able.QUEUED}), POLL_SECONDS

    def __init__(self, server: RestServer, tell: Callable[[str], None] = lambda _: None) -> None:
        self._server, self._tell = server, tell

    def submit(self, jobs: Sequence[Submission], dry: bool = False) -> Sequence[Accepted]:
        raise Denied(
            "jobs are submitted on the machine itself", hint="or as a job file: POST /api/jobs"
        )

    # Reading.

    def listing(self, everyone: bool = False) -> JobListing:
        page = self._read(_Page, "/api/jobs", limit=SHOWN_JOBS)
        return listing_of_page(page.jobs, page.paused, page.clusters, page.note)

    def find(self, refs: Sequence[JobName], act: JobAct | None = None) -> Found:
        views, errors = dict[str, JobView](), list[AndonError]()
        known = cache(self._known)
        for ref in refs:
            try:
                found = [self._exact(ref)] if len(refs) == 1 and isinstance(ref, int) else []
                views |= {one.label: one for one in found or self._meant(ref, act, known())}
            except AndonError as error:
                errors.append(error)
        return Found(list(views.values()), errors)

    def view(self, job: JobName) -> JobView:
        return self._exact(job if is_exact(job) else self._one(job))

    def log(
        self, job: JobName, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        path = f"{_path(job if is_exact(job) else self._one(job))}/log"
        query = {"start": start, "attempt": attempt, "most": min(most, MOST_LOG_BYTES)}
        return self._read(LogPart, path, **query)

    def reasons(self, job: JobName) -> list[JobReason]:
        return reasons_of(self.view(job))

    # Changing.

    def act(self, act: JobAct, refs: Sequence[JobName]) -> list[JobOutcome]:
        found, errors = self.find(refs, act)
        out = [JobOutcome("", error=error) for error in errors]
        return out + [self._acted(act, view) for view in found]

    def _acted(self, act: JobAct, view: JobView) -> JobOutcome:
        if act is JobAct.REMOVE:
            hint = f"on its machine: andon jobs rm {sh(view.label)}"
            return JobOutcome(view.label, error=Invalid("a server deletes no jobs", hint=hint))
        try:
            reply = self._server.post(f"{_path(_exact_word(view))}/{_ROUTES.get(act, act.value)}")
            done = read(_Done, reply)
        except Wrong as exc:
            error = self._server.of_another_version(f"an answer is not as expected: {exc}")
            return JobOutcome(view.label, error=error)
        except AndonError as error:
            return JobOutcome(view.label, error=error)
        return JobOutcome(view.label, done.outcome, note=done.note)

    def close(self) -> None:
        self._server.close()

    # What a word means.

    def _known(self) -> Sequence[JobView]:
        """Returns the newest jobs; if the server shows everyone's, only those of its own user."""
        page = self._read(_Page, "/api/jobs", limit=KNOWN_JOBS)
        if page.scope != EVERYONE:
            return page.jobs
        return [one for one in page.jobs if one.engine or one.user == page.user]

    def _meant(
        self, word: JobName, act: JobAct | None, views: Sequence[JobView]
    ) -> Sequence[JobView]:
        """Returns the jobs that a word names, as on the machine itself; a job older than the listed
        ones is found only by its number."""
        text = str(word)
        there = [one for one in views if one.engine is not None and text in _names_of(one)]
        if there or SEPARATOR in text:
            return there or [self._exact(text)]
        own = {one.number: one for one in views if one.engine is None}
        if isinstance(word, int) or (word.isdecimal() and int(word) not in own):
            return [own.get(int(word)) or self._exact(int(word))]
        jobs = {number: _facts(view) for number, view in own.items()}
        rule = name_rule(act, lambda number: own[number].state, self._tell)
        return [own[number] for number in meant(word, jobs, rule)]

    def _one(self, word: JobName) -> JobName:
        (view, *others) = self._meant(word, None, self._known())
        if others:
            raise Invalid(f"{word} is {1 + len(others)} jobs", hint=f"one of them: {view.label}")
        return _exact_word(view)

    def _exact(self, job: JobName) -> JobView:
        return self._read(JobView, _path(job))

    def _read(self, kind: type[T], path: str, **query: int | None) -> T:
        try:
            found: T = read(kind, self._server.get(path, **query))
        except Wrong as exc:
            raise self._server.of_another_version(f"a job is not as expected: {exc}") from exc
        return found


def is_exact(job: JobName) -> bool:
    """Whether the text names one job exactly: a number, or NAME:ID."""
    return isinstance(job, int) or job.isdecimal() or SEPARATOR in job


def _exact_word(view: JobView) -> JobName:
    return view.number or view.label


def _names_of(view: JobView) -> Sequence[str | None]:
    """Returns the names of a cluster's job: its own, its array's and its group's."""
    return [view.group, *(f"{view.engine}{SEPARATOR}{one}" for one in ids_of(view))]


def _facts(view: JobView) -> JobFacts:
    """Returns the facts that a name is compared with."""
    array = None if view.array is None else ArrayPlace(view.array, view.array_index or 0, 1)
    spec = JobSpec(view.number, view.name, (), "", DeviceRequest(), view.submitted_at)
    return JobFacts(replace(spec, group=view.group, array=array))


def _path(job: JobName) -> str:
    return f"/api/jobs/{quote(str(job), safe=':_')}"
