"""The jobs of this user on this machine."""

from collections.abc import Sequence

from andon.jobs.queue import Queue
from andon.jobs.rules.views import in_list_order
from andon.model.job import JobView


class LocalJobs:
    """Keeps the queue open: each call reads only what changed."""

    def __init__(self) -> None:
        self._queue: Queue | None = None

    def views(self) -> Sequence[JobView]:
        if self._queue is None:
            self._queue = Queue()
        else:
            self._queue.refresh()
        return in_list_order(self._queue.views())
