"""The jobs that a server shows: its own user's, in full for those who may see them."""

import os
import threading
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from andon.core.access.roles import Sight
from andon.errors import AndonError, Denied, Gone, Unavailable
from andon.host.private_files import open_regular
from andon.model.job import JobState, JobView
from andon.model.lease_list import LeaseList
from andon.web.answers.job_schemas import JobCounts, JobLog, JobPage, OthersWaiting
from andon.web.answers.runs import HIDDEN_NAME

if TYPE_CHECKING:
    from andon.app.jobs import Queue

FRESH_SECONDS = 0.5
"""Requests within this time share one reading of the folder."""
MOST_LISTED = 1000
LOG_BYTES = 64 * 1024
WAITS = (JobState.WAITING, JobState.HELD, JobState.LATER)


class ServerJobs:
    """Every call may block: callers use a thread of their own. `why_not` says why none may be
    submitted over the network, or returns None."""

    def __init__(
        self,
        open_queue: "Callable[[], Queue]",
        user: str,
        book: Callable[[], LeaseList | None],
        why_not: Callable[[], str | None],
        submit: "Callable[[dict[str, Any]], Sequence[int]]",
        wake: Callable[[], None],
    ) -> None:
        self._open, self.user, self._book = open_queue, user, book
        self._why_not, self._submit, self._wake = why_not, submit, wake
        self._queue: Queue | None = None
        self._read = 0.0
        self._lock = threading.Lock()

    def views(self) -> tuple[list[JobView], bool]:
        """All jobs, and whether the queue is paused; nothing is read twice within a moment."""
        with self._lock:
            queue = self._fresh()
            return queue.views(), queue.paused

    def page(self, sight: Sight, state: str = "", limit: int = 100) -> JobPage:
        views, paused = self.views()
        whole = sight.shows(self.user)
        wanted = [one for one in reversed(views) if _is_wanted(one, state)]
        return JobPage(
            at=time.time(),
            user=self.user,
            whole=whole,
            paused=paused,
            may_submit=self._why_not() is None,
            counts=counts_of(views),
            jobs=tuple(shown_to(sight, one) for one in wanted[:limit]),
            others=self._others(),
            note=None if len(wanted) <= limit else f"{len(wanted):,} jobs; {limit:,} are shown",
        )

    def details(self, sight: Sight, number: int) -> JobView:
        with self._lock:
            queue = self._fresh()
            if number not in queue.jobs:
                raise _gone(number)
            view = queue.view(number) if sight.shows(self.user) else queue.views([number])[0]
        return shown_to(sight, view)

    def log(self, sight: Sight, number: int, attempt: int | None, start: int | None) -> JobLog:
        """The last part of the output, or what came after `start`."""
        if not sight.shows(self.user):
            raise Denied(
                f"the output of a job is for {self.user} alone", hint="sign in: andon open"
            )
        with self._lock:
            queue = self._fresh()
            facts = queue.jobs.get(number)
            if facts is None:
                raise _gone(number)
            state = queue.standings[number].state
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

    def cancel(self, number: int) -> str:
        from andon.engine.jobs.acts import cancel

        with self._lock:
            queue = self._fresh(again=True)
            facts = queue.jobs.get(number)
            if facts is None:
                raise _gone(number)
            outcome = cancel(queue.folder, facts, queue.standings[number])
            self._read = 0.0
        self._wake()
        return outcome.value

    def submit(self, document: dict[str, Any]) -> Sequence[int]:
        """Queue what a job file's document describes; Denied unless the settings allow it."""
        why = self._why_not()
        if why is not None:
            raise Denied(why, hint="in a terminal: andon submit -- COMMAND")
        numbers = self._submit(document)
        with self._lock:
            self._read = 0.0
        return numbers

    def _fresh(self, again: bool = False) -> "Queue":
        try:
            if self._queue is None:
                self._queue = self._open()
                if any(one.state in WAITS for one in self._queue.standings.values()):
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

    def _others(self) -> tuple[OthersWaiting, ...]:
        try:
            found = self._book()
        except AndonError:
            return ()
        return tuple(
            OthersWaiting(row.user, row.position, row.gpus, row.since, row.jobs_behind)
            for row in (() if found is None else found.waiting)
            if row.jobs_behind is not None and row.user != self.user
        )


def shown_to(sight: Sight, view: JobView) -> JobView:
    """Whoever may not see the user's commands learns that there is a job, and how it stands."""
    if sight.shows(view.user):
        return view
    return replace(
        view, name=HIDDEN_NAME, command=HIDDEN_NAME, folder="", reason=None, error=None,
        record=None, tags=(), waiting_details=(), environment={}, run=None, pid=None, group=None,
        params={},
    )  # fmt: skip


def counts_of(views: Sequence[JobView]) -> JobCounts:
    waiting = sum(one.state in WAITS for one in views)
    running = sum(one.state is JobState.RUNNING for one in views)
    return JobCounts(waiting, running, len(views) - waiting - running)


def _is_wanted(view: JobView, state: str) -> bool:
    if state == "active":
        return not view.state.is_settled
    return not state or view.state.value == state


def _tail(path: str, start: int | None) -> tuple[int, str, int]:
    """Where the text begins, the text, where it ends; whole lines where it is cut. A character of
    which only the first bytes are there comes with the next part."""
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


def _gone(number: int) -> Gone:
    return Gone(f"there is no job {number}", hint="to list them: andon jobs --all")
