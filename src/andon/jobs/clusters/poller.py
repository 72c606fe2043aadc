"""A cluster's desk for a server: polls the cluster's jobs in a thread, with back-off."""

import logging
import threading
from collections.abc import Sequence

from andon.errors import Unavailable
from andon.failures.retrying import REAL, Clocks, Retrying, RetryTexts
from andon.jobs.clusters.answers import keep_page
from andon.jobs.clusters.asking import GRACE_SECONDS, UncountedTime, as_ours
from andon.jobs.clusters.desk import ClusterDesk, listing_of
from andon.jobs.rules.cluster_views import ClusterPage
from andon.jobs.rules.polling import (
    BACK_OFF,
    WATCHED_SECONDS,
    wait_seconds,
)
from andon.jobs.rules.views import JobListing
from andon.model.job.desk import Found, JobAct, JobName, JobOutcome
from andon.units import human_seconds

CLOSE_SECONDS = 1.0
log = logging.getLogger("andon.clusters")


class ClusterPoller(ClusterDesk):
    """The jobs of one cluster, from its last answer. A call that hangs blocks this thread alone;
    lists never wait. With `everyone`, the jobs of all users are listed, and not cached in this
    user's file."""

    def __init__(self, cluster: ClusterDesk, everyone: bool = False, clocks: Clocks = REAL) -> None:
        super().__init__(cluster.name, cluster.timeout_seconds, cluster.open, cluster.read_nodes)
        self._everyone, self._clocks = everyone, clocks
        texts = RetryTexts(
            lambda reason: f"the cluster {cluster.name} does not answer: {reason}",
            lambda lasted: f"the cluster {cluster.name} answers again, after {lasted}",
        )
        self._retrying = Retrying(log.warning, texts, as_ours, BACK_OFF, clocks)
        self._page, self._uncounted = cluster.page(everyone), UncountedTime()
        self._watched, self._urgent = float("-inf"), False
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"cluster {cluster.name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def page(self, everyone: bool = False) -> ClusterPage:
        """Returns the last answer, and notes that someone reads it, which makes polls more
        frequent."""
        now = self._clocks.steady()
        before, self._watched = self._watched, now
        if now - before > WATCHED_SECONDS:
            self._wake.set()
        limit = self.timeout_seconds + GRACE_SECONDS + self._uncounted.seconds
        stuck = self._retrying.stuck_seconds(limit)
        if stuck is None:
            return self._page
        polled_at = self._clocks.wall() - stuck
        return self._page.failed(f"it was asked {human_seconds(stuck)} ago", polled_at)

    def listing(self, everyone: bool = False) -> JobListing:
        return listing_of([self.page()])

    def find(self, refs: Sequence[JobName], act: JobAct | None = None) -> Found:
        found = self.found(refs, self.listing().views)
        if found.errors and self.page().failing_since is not None:
            raise Unavailable(f"{self.name} does not answer now", hint="ask again later")
        return found

    def act(self, act: JobAct, refs: Sequence[JobName]) -> list[JobOutcome]:
        try:
            return super().act(act, refs)
        finally:  # it is polled now: one of its jobs was changed
            self._urgent = True
            self._wake.set()

    def close(self) -> None:
        """Stops polling; a call that hangs is abandoned."""
        self._stopped.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._urgent = False
            began = self._clocks.steady()
            self.poll()
            self._wait(began, self._clocks.steady() - began)

    def poll(self) -> None:
        """Polls once; keeps the answer, or the reason why there is none."""
        trouble = self._retrying.attempt(self._poll)
        if trouble is None:
            self._retrying.succeeded()
        else:
            self._page = self._page.failed(trouble.reason, self._clocks.wall())
        if not self._everyone:
            keep_page(self._page)

    def _poll(self) -> None:
        self._uncounted = UncountedTime()
        self._uncounted.of_this_thread()
        self._page = self.refreshed(self._page, self._everyone, self._clocks.wall)

    def _wait(self, began: float, took: float) -> None:
        while not self._stopped.is_set() and not self._urgent:
            now = self._clocks.steady()
            failures = self._retrying.failures.count
            left = began + wait_seconds(took, now - self._watched, failures) - now
            if left <= 0:
                return
            self._wake.wait(left)
            self._wake.clear()
