"""The jobs of clusters that a server shows, as its pollers know them."""

import time
from collections.abc import Sequence

from andon.access.roles import Sight
from andon.errors import Denied, Gone, Invalid, Unavailable
from andon.jobs.clusters.asking import OpenCluster
from andon.jobs.clusters.pages import listed
from andon.jobs.clusters.poller import ClusterPoller
from andon.model.job.facts import JobView
from andon.units import sh
from andon.web.answers.job_schemas import ClusterState, JobDone, JobLog

LOG_BYTES = 64 * 1024


class ServerClusters:
    """The clusters of a server of `user`. A call that asks a cluster takes its time limit at most;
    lists come from memory."""

    def __init__(self, pollers: Sequence[ClusterPoller] = (), user: str = "") -> None:
        self._pollers, self.user = {one.opened.name: one for one in pollers}, user

    def views(self, user: str | None) -> Sequence[JobView]:
        """Returns the jobs of this user, or of everyone, oldest first."""
        if not self._pollers:
            return ()
        found = listed([one.page() for one in self._pollers.values()], time.time()).views
        return [view for view in found if user in (None, view.user)]

    def states(self) -> tuple[ClusterState, ...]:
        """Returns how each cluster is."""
        pages = [one.page() for one in self._pollers.values()]
        return tuple(
            ClusterState(one.name, one.at, one.failing_since, one.trouble) for one in pages
        )

    def view(self, label: str) -> JobView:
        for view in self.views(None):
            if view.label == label:
                return view
        for one in self.states():
            if one.failing_since is not None and label.startswith(f"{one.name}:"):
                raise Unavailable(f"{one.name} does not answer now", hint="ask again later")
        raise Gone(f"there is no job {label[:80]}", hint="to list them: andon jobs --all")

    def log(self, sight: Sight, label: str, start: int | None) -> JobLog:
        """Returns a part of the output of one of the server user's own jobs: root reads no file
        that another user names."""
        view = self._own(label)
        if not sight.shows(view.user):
            raise Denied(
                f"the output of a job is for {view.user} alone", hint="sign in: andon open"
            )
        cluster, job = self._opened(view)
        part = cluster.ask(lambda there: there.log(job, start, LOG_BYTES))
        return JobLog(label, 1, part.start, part.end, part.text, part.ended)

    def act(self, label: str, act: str) -> JobDone:
        """Cancels one of the server user's own jobs."""
        if act != "cancel":
            raise Invalid(f"{label[:80]} is a job of a cluster: it can be cancelled, and no more")
        view = self._own(label)
        cluster, job = self._opened(view)
        cluster.ask(lambda there: there.cancel([job]))
        self._pollers[cluster.name].look_again()
        return JobDone(label, "is asked to end")

    def close(self) -> None:
        for one in self._pollers.values():
            one.close()

    def _own(self, label: str) -> JobView:
        view = self.view(label)
        if view.user != self.user:
            raise Denied(
                f"a server of {self.user} does this only for jobs of {self.user}",
                hint=f"in a terminal of {view.user}: andon logs {sh(label[:80])}, andon cancel",
            )
        return view

    def _opened(self, view: JobView) -> tuple[OpenCluster, str]:
        return self._pollers[view.engine or ""].opened, view.engine_id or ""
