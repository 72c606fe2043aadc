"""Starts the dispatcher of a server's user whenever there is work for it and none is running."""

from collections.abc import Callable, Mapping

from andon.failures.log import FailureLog
from andon.jobs.folder import JobsFolder
from andon.jobs.rules.states import JobStatus, has_work
from andon.jobs.starting import is_dispatched, start_dispatcher
from andon.sampling.bus import Subscription
from andon.sampling.follower import Follower, SnapshotDelivery

CHECK_SECONDS = 5.0
CLOSE_SECONDS = 1.0


class DispatcherGuard:
    """Checks every few seconds, in its own thread: a home may be on a network that hangs.

    A check costs two system calls while a dispatcher runs, and one while nothing has changed since
    there was no work; otherwise the jobs are read.
    """

    def __init__(
        self,
        subscription: Subscription,
        folder: JobsFolder,
        read: Callable[[], Mapping[int, JobStatus]],
    ) -> None:
        self._folder, self._read = folder, read
        self._quiet: int | None = None  # when the folder had last changed, and there was no work
        self._follower = Follower(
            subscription,
            lambda snapshot: self.check(),
            "dispatcher guard",
            FailureLog("andon.jobs", "jobs cannot be checked; trying again"),
            taking=SnapshotDelivery.NEWEST,
            begin=self.check,
        )

    def start(self) -> None:
        self._follower.start()

    def check(self) -> bool:
        """Checks once; returns whether a dispatcher was started."""
        changed_at = self._folder.changed_at()
        if not changed_at or changed_at == self._quiet or is_dispatched(self._folder):
            return False
        if has_work(self._read().values(), self._folder.paused):
            return start_dispatcher(self._folder)
        self._quiet = changed_at
        return False

    def close(self) -> None:
        self._follower.close(CLOSE_SECONDS)
