"""The parts shared by desks that take no submissions and name each job by its number or NAME:ID."""

from collections.abc import Sequence
from typing import Protocol

from andon.errors import AndonError, Denied
from andon.jobs.desk import JobDesk
from andon.jobs.rules.polling import FRESH_SECONDS
from andon.jobs.rules.views import reasons_of
from andon.model.job.desk import (
    Able,
    Accepted,
    Found,
    JobAct,
    JobName,
    JobOutcome,
    JobReason,
    Submission,
)
from andon.model.job.facts import JobView


class OwnDesk(JobDesk, Protocol):
    """The jobs of one user of this machine."""

    user: str


class ExactDesk(OwnDesk, Protocol):
    """The jobs of one user, or as one caller sees them; a job is named by its number or NAME:ID."""

    name, able, poll_seconds = "server", frozenset({Able.QUEUED}), FRESH_SECONDS

    def submit(self, jobs: Sequence[Submission], dry: bool = False) -> Sequence[Accepted]:
        raise Denied("a server takes jobs as a job file", hint="POST /api/jobs")

    def find(self, refs: Sequence[JobName], act: JobAct | None = None) -> Found:
        views, errors = dict[str, JobView](), list[AndonError]()
        for ref in refs:
            try:
                view = self.view(ref)
            except AndonError as error:
                errors.append(error)
            else:
                views[view.label] = view
        return Found(list(views.values()), errors)

    def reasons(self, job: JobName) -> list[JobReason]:
        return reasons_of(self.view(job))

    def act(self, act: JobAct, refs: Sequence[JobName]) -> list[JobOutcome]:
        out = list[JobOutcome]()
        for ref in refs:
            try:
                out += self.acted(act, ref)
            except AndonError as error:
                out.append(JobOutcome(str(ref), error=error))
        return out

    def acted(self, act: JobAct, job: JobName) -> Sequence[JobOutcome]:
        """Performs the action on one job."""
