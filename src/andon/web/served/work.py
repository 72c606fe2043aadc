"""The runs and jobs that a server shows to one caller."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from andon.access.roles import Action, Identity, Sight, refusal_for
from andon.errors import Conflict, Denied, Gone
from andon.jobs.rules.polling import FRESH_SECONDS
from andon.jobs.rules.views import JobListing
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
from andon.model.run.record import RunRow
from andon.runs.rules.matching import RunListing, RunQuery, seen_by
from andon.web.answers.job_schemas import JobPage
from andon.web.answers.run_schemas import RunCourses, RunDetails, RunMarks, RunPage
from andon.web.jobs.seen import MOST_LISTED, ServerJobs
from andon.web.runs.shown import Download, ServerRuns


class ServedRuns:
    """Every call reads files."""

    def __init__(self, runs: ServerRuns, sight: Sight) -> None:
        self._runs, self._sight = runs, sight

    def listed(self, query: RunQuery) -> RunListing:
        seen = self._runs.seen(self._sight)
        rows, total = seen.rows(replace(query, sight=self._sight))
        return RunListing(list(rows), total, seen.note)

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        return self.listed(query).rows

    def is_id(self, word: str) -> bool:
        try:
            return self.resolve(word).id == word
        except (Gone, Conflict):
            return False

    def resolve(self, word: str) -> RunRow:
        return seen_by(self._sight, self._runs.find(word, self._sight)[0])

    def record(self, row: RunRow) -> Path:
        self.download(row.id).file.close()
        return Path(row.path)

    def page(self, query: RunQuery, search: str) -> RunPage:
        return self._runs.page(self._sight, query, search)

    def details(self, run: str) -> RunDetails:
        return self._runs.details(self._sight, run)

    def courses(self, runs: Sequence[str]) -> RunCourses:
        return self._runs.courses(self._sight, runs)

    def marks(self, run: str) -> RunMarks:
        return self._runs.marks(self._sight, run)

    def download(self, run: str) -> Download:
        return self._runs.download(self._sight, run)


_ACTIONS = {
    JobAct.CANCEL: Action.CANCEL,
    JobAct.RETRY: Action.RETRY,
    JobAct.REQUEUE: Action.REQUEUE,
}


class ServedJobs:
    """Implements JobDesk; every call may block. `user` names another user's jobs, for those who may
    see them."""

    name, able, poll_seconds = "server", frozenset({Able.QUEUED}), FRESH_SECONDS

    def __init__(self, jobs: ServerJobs, who: Identity, sight: Sight, user: str = "") -> None:
        self._jobs, self._who, self._sight, self._user = jobs, who, sight, user

    def of(self, user: str) -> "ServedJobs":
        return ServedJobs(self._jobs, self._who, self._sight, user)

    def submit(self, jobs: Sequence[Submission], dry: bool = False) -> Sequence[Accepted]:
        raise Denied("a server takes jobs as a job file", hint="POST /api/jobs")

    def submit_document(self, document: dict[str, Any]) -> Sequence[int]:
        return self._jobs.submit(document)

    def listing(self, everyone: bool = False) -> JobListing:
        found = self.shown(limit=MOST_LISTED)
        notes = [f"{one.name}: {one.trouble}" for one in found.clusters if one.trouble]
        notes += [found.note] if found.note else []
        return JobListing.of(found.jobs, found.paused, notes, found.clusters)

    def shown(self, state: str = "", limit: int = 100) -> JobPage:
        return self._jobs.page(self._sight, state, limit, self._user)

    def view(self, job: JobWord) -> JobView:
        return self._jobs.details(self._sight, job, self._user)

    def find(self, words: Sequence[JobWord], act: JobAct | None = None) -> Found:
        return Found([self.view(word) for word in words])

    def log(
        self, job: JobWord, start: int | None, most: int, attempt: int | None = None
    ) -> LogPart:
        return self._jobs.log(self._sight, job, attempt, start, self._user)

    def act(self, act: JobAct, words: Sequence[JobWord]) -> list[JobOutcome]:
        """Changes the caller's own jobs; a server of root does it as that user."""
        whose = self._jobs.whose(self._who, self._user)
        action = _ACTIONS.get(act, Action.MOVE)
        refused = refusal_for(self._who, action, self._who.user == whose, whose)
        if refused is not None:
            raise refused
        return [self._jobs.act(self._who, one, act, self._user) for one in words]

    def reasons(self, job: JobWord) -> list[JobReason]:
        view = self.view(job)
        return [JobReason(one) for one in (view.reason, *view.waiting_details) if one]
