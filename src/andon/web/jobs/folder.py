"""One user's jobs, read from the folder that is their queue."""

import os
import threading
import time
from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import TYPE_CHECKING

from andon.errors import Gone, Unavailable
from andon.host.files import open_regular
from andon.model.job.facts import JobState, JobView
from andon.web.answers.job_schemas import JobDone, JobLog
from andon.web.users.files import UserJobs

if TYPE_CHECKING:
    from andon.jobs.queue import Queue

FRESH_SECONDS = 0.5
"""Requests within this time share one reading of the folder."""
LOG_BYTES = 64 * 1024
WAITS = (JobState.WAITING, JobState.HELD, JobState.LATER)
NOT_DISPATCHED = "nothing of yours starts jobs now: it starts with your next andon jobs or submit"


class FolderJobs:
    """Reads one user's jobs; every call may block, so callers use a thread of their own. `wake`
    makes sure that a dispatcher runs; None if this process must not start one."""

    def __init__(
        self, open_queue: "Callable[[], Queue]", user: str, wake: Callable[[], None] | None
    ) -> None:
        self._open, self.user, self._wake = open_queue, user, wake
        self._queue: Queue | None = None
        self._read = 0.0
        self._lock = threading.Lock()

    def jobs(self) -> UserJobs:
        """Returns the jobs; within a moment the last answer is reused."""
        with self._lock:
            queue = self._fresh()
            return UserJobs(queue.views(), queue.paused)

    def job(self, number: int) -> JobView:
        """Returns one job with the variables that may be shown."""
        with self._lock:
            queue = self._fresh()
            if number not in queue.jobs:
                raise no_job(number)
            return queue.view(number)

    def log(self, number: int, attempt: int | None, start: int | None) -> JobLog:
        """Returns the last part of the output, or what came after `start`."""
        with self._lock:
            queue = self._fresh()
            facts = queue.jobs.get(number)
            if facts is None:
                raise no_job(number)
            state = queue.statuses[number].state
            begun = [one.number for one in facts.attempts]
            path = None
            if begun:
                attempt = begun[-1] if attempt is None else attempt
                if attempt not in begun:
                    raise Gone(f"job {number} has no attempt {attempt}", hint=f"{len(begun)} began")
                path = queue.folder.output(number, attempt)
        if path is None:
            return JobLog(number, None, 0, 0, "", state.is_settled)
        begin, text, end = _tail(str(path), start)
        over = state is not JobState.RUNNING or attempt != begun[-1]
        return JobLog(number, attempt, begin, end, text, over)

    def act(self, number: int, act: str) -> JobDone:
        """Cancel, retry, requeue, move, hold or resume a job."""
        from andon.jobs.acts import JobAct, perform
        from andon.jobs.starting import is_dispatched

        with self._lock:
            queue = self._fresh(again=True)
            if number not in queue.jobs:
                raise no_job(number)
            outcome = perform(JobAct(act), number, queue.folder, queue.jobs, queue.statuses)
            self._read = 0.0
        if self._wake is not None:
            self._wake()
        idle = self._wake is None and act != JobAct.CANCEL and not is_dispatched(queue.folder)
        return JobDone(number, outcome, NOT_DISPATCHED if idle else None)

    def forget(self) -> None:
        """Read the folder again at the next request."""
        with self._lock:
            self._read = 0.0

    def _fresh(self, again: bool = False) -> "Queue":
        try:
            if self._queue is None:
                self._queue = self._open()
                waits = any(one.state in WAITS for one in self._queue.statuses.values())
                if waits and self._wake is not None:
                    self._wake()
            elif again or time.monotonic() - self._read >= FRESH_SECONDS:
                self._queue.refresh()
            else:
                return self._queue
        except OSError as exc:
            reason = f"the jobs cannot be read: {exc.strerror}"
            raise Unavailable(reason, hint="check the state folder: andon doctor") from exc
        self._read = time.monotonic()
        return self._queue


def _tail(path: str, start: int | None) -> tuple[int, str, int]:
    """Returns the start offset, the text and the end offset; a cut text has whole lines. A
    character whose last bytes are missing comes with the next part."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return 0, "", 0
    with os.fdopen(descriptor, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        begin = max(0, size - LOG_BYTES) if start is None or start > size else start
        begin = max(begin, size - LOG_BYTES)
        file.seek(begin)
        content = file.read(LOG_BYTES)
    if begin and begin != start and b"\n" in content:
        cut = content.index(b"\n") + 1
        begin, content = begin + cut, content[cut:]
    decoder = getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(content)
    return begin, text, begin + len(content) - len(decoder.getstate()[0])


def no_job(number: int) -> Gone:
    return Gone(f"there is no job {number}", hint="to list them: andon jobs --all")
