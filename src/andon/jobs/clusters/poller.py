"""A cluster's desk for a server, which asks for its jobs again and again: in a thread, with
back-off."""

import logging
import threading
from collections.abc import Sequence

from andon.errors import Unavailable
from andon.failures.retrying import REAL, Clocks, Retrying, RetryTexts
from andon.jobs.clusters.answers import keep_page
from andon.jobs.clusters.asking import GRACE_SECONDS, Elsewhere, as_ours
from andon.jobs.clusters.desk import ClusterDesk, listing_of
from andon.jobs.rules.cluster_views import ClusterPage
from andon.jobs.rules.polling import (
    BACK_OFF,
    WATCHED_SECONDS,
    wait_seconds,
)
from andon.jobs.rules.views import JobListing
from andon.model.job.desk import Found, JobAct, JobOutcome, JobWord
from andon.units import human_seconds

CLOSE_SECONDS = 1.0
log = logging.getLogger("andon.clusters")


class ClusterPoller(ClusterDesk):
    """The jobs of one cluster, as it last answered. A question that hangs holds up this thread
    alone; lists never wait. With `everyone` the jobs of all users are asked for, and not kept in
    this user's file."""

    def __init__(self, cluster: ClusterDesk, everyone: bool = False, clocks: Clocks = REAL) -> None:
        super().__init__(cluster.name, cluster.timeout_seconds, cluster.open, cluster.read_nodes)
        self._everyone, self._clocks = everyone, clocks
        texts = RetryTexts(
            lambda reason: f"the cluster {cluster.name} does not answer: {reason}",
            lambda lasted: f"the cluster {cluster.name} answers again, after {lasted}",
        )
        self._retrying = Retrying(log.warning, texts, as_ours, BACK_OFF, clocks)
        self._page, self._elsewhere = cluster.page(everyone), Elsewhere()
        self._watched, self._urgent = float("-inf"), False
        self._wake, self._stopped = threading.Event(), threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"cluster {cluster.name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def page(self, everyone: bool = False) -> ClusterPage:
        """Returns what is known now, and notes that someone looks."""
        now = self._clocks.steady()
        before, self._watched = self._watched, now
        if now - before > WATCHED_SECONDS:
            self._wake.set()
        limit = self.timeout_seconds + GRACE_SECONDS + self._elsewhere.seconds
        stuck = self._retrying.stuck_seconds(limit)
        if stuck is None:
            return self._page
        asked = self._clocks.wall() - stuck
        return self._page.failed(f"it was asked {human_seconds(stuck)} ago", asked)

    def listing(self, everyone: bool = False) -> JobListing:
        return listing_of([self.page()])

    def find(self, words: Sequence[JobWord], act: JobAct | None = None) -> Found:
        found = self.found(words, self.listing().views)
        if found.errors and self.page().failing_since is not None:
            raise Unavailable(f"{self.name} does not answer now", hint="ask again later")
        return found

    def act(self, act: JobAct, words: Sequence[JobWord]) -> list[JobOutcome]:
        try:
            return super().act(act, words)
        finally:  # it is asked now: one of its jobs was changed
            self._urgent = True
            self._wake.set()

    def close(self) -> None:
        """Stop asking; a question that hangs is left behind."""
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
        """Asks once, and keeps the answer or why there is none."""
        trouble = self._retrying.attempt(self._poll)
        if trouble is None:
            self._retrying.succeeded()
        else:
            self._page = self._page.failed(trouble.reason, self._clocks.wall())
        if not self._everyone:
            keep_page(self._page)

    def _poll(self) -> None:
        self._elsewhere = Elsewhere()
        self._elsewhere.of_this_thread()
        self._page = self.asked(self._page, self._everyone, self._clocks.wall)

    def _wait(self, began: float, took: float) -> None:
        while not self._stopped.is_set() and not self._urgent:
            now = self._clocks.steady()
            failures = self._retrying.failures.count
            left = began + wait_seconds(took, now - self._watched, failures) - now
            if left <= 0:
                return
            self._wake.wait(left)
            self._wake.clear()
