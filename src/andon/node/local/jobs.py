"""The jobs of this user on this machine, and on the clusters of the settings."""

import time

from andon.jobs.clusters.pages import listed, pages_now
from andon.jobs.queue import Queue
from andon.jobs.rules.views import JobListing
from andon.node.local.context import Here


class LocalJobs:
    """Keeps the queue open: each call reads only what changed. A cluster that does not answer in
    time costs a line."""

    def __init__(self, here: Here) -> None:
        self._queue: Queue | None = None
        self._clusters = here.parts.configured_clusters(here.settings)

    def page(self) -> JobListing:
        if self._queue is None:
            self._queue = Queue()
        else:
            self._queue.refresh()
        views, paused = self._queue.views(), self._queue.paused
        if not self._clusters:
            return JobListing.of(views, paused)

        there = listed(pages_now(self._clusters), time.time())
        return JobListing.of([*views, *there.views], paused, there.notes)
