"""This user's jobs on this machine, for their view."""

from andon.app.jobs import Queue
from andon.model.job import JobView


class JobReader:
    """Keeps the queue open: a look reads only what changed."""

    def __init__(self) -> None:
        self._queue: Queue | None = None

    def read(self) -> tuple[JobView, ...]:
        """Those that run or wait first, then the latest that ended."""
        if self._queue is None:
            self._queue = Queue()
        else:
            self._queue.refresh()
        return tuple(sorted(self._queue.views(), key=_order))


def _order(view: JobView) -> tuple[bool, int]:
    settled = view.state.is_settled
    return settled, -view.number if settled else view.number
