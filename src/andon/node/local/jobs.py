"""The jobs of this user on this machine."""

from andon.jobs.queue import Queue
from andon.jobs.rules.views import JobListing


class LocalJobs:
    """Keeps the queue open: each call reads only what changed."""

    def __init__(self) -> None:
        self._queue: Queue | None = None

    def page(self) -> JobListing:
        if self._queue is None:
            self._queue = Queue()
        else:
            self._queue.refresh()
        return JobListing.of(self._queue.views(), self._queue.paused)
