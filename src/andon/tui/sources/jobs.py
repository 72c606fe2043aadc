"""Jobs for their view: this user's on this machine, or those that a server shows."""

from typing import TYPE_CHECKING

from andon.model.job import JobState, JobView
from andon.model.job.spec import MOST_JOBS

if TYPE_CHECKING:
    from andon.jobs.queue import Queue
    from andon.node.remote import Server

SHOWN_JOBS = 200


class JobReader:
    """Keeps the queue open: each poll reads only what changed."""

    def __init__(self) -> None:
        self._queue: Queue | None = None

    def read(self) -> tuple[JobView, ...]:
        """Returns running and waiting jobs first, then the latest that ended."""
        from andon.jobs.queue import Queue

        if self._queue is None:
            self._queue = Queue()
        else:
            self._queue.refresh()
        return tuple(sorted(self._queue.views(), key=_order))


def jobs_there(server: "Server") -> tuple[JobView, ...]:
    """Returns a server's jobs in the same order; fields hidden from this user are absent."""
    from andon.model.codec import Wrong, read

    page = server.get("/api/jobs", limit=SHOWN_JOBS)
    try:
        listed = read(list[JobView], page.get("jobs"))
        return tuple(sorted(listed, key=_order))
    except Wrong as exc:
        raise server.of_another_version(f"a job is not as expected: {exc}") from exc


def _order(view: JobView) -> tuple[bool, int, int]:
    """A sort key: running jobs, waiting ones by position, held ones, then the latest that ended."""
    if view.state.is_settled:
        return True, 0, -view.number
    waits = 0 if view.state is JobState.RUNNING else (view.position or view.number + MOST_JOBS)
    return False, waits, view.number
