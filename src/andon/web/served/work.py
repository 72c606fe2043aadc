"""The runs and jobs that a server shows to one caller."""

from collections.abc import Sequence
from typing import Any

from andon.access.roles import Action, Identity, Sight, refusal_for
from andon.errors import AndonError, Denied
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
from andon.node.seen.job_schemas import JobPage
from andon.web.jobs.seen import MOST_LISTED, ServerJobs

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
        views, errors = list[JobView](), list[AndonError]()
        for word in words:
            try:
                views.append(self.view(word))
            except AndonError as error:
                errors.append(error)
        return Found(views, errors)

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
