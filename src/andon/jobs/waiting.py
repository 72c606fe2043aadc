"""Waits for jobs, whichever desk has them."""

import time
from collections.abc import Callable, Sequence

from andon.errors import AndonError, Gone, Invalid, TimedOut
from andon.failures.rules.backoff import doubled_seconds
from andon.jobs.desk import JobDesk
from andon.jobs.rules.naming import deleted_meanwhile
from andon.model.job.desk import Able, Found, JobName
from andon.model.job.facts import JobState, JobView

FIRST_POLL_SECONDS = 0.2


def wait(
    desk: JobDesk,
    refs: Sequence[JobName],
    until: float | None = None,
    changed: Callable[[JobView], None] = lambda _: None,
) -> Found:
    """Waits until jobs have ended or are held, and returns them, with an error for each reference
    that names none or whose job is deleted meanwhile. A desk that does not answer is asked again;
    `until` is on the monotonic clock."""
    found = desk.find(refs)
    ended, errors, polls = {one.label: one for one in found.views}, list(found.errors), 0
    for view in found.views:
        changed(view)
    may_be_held = Able.QUEUED in desk.able
    while left := [one for one, view in ended.items() if not _is_over(view, may_be_held)]:
        if until is not None and time.monotonic() >= until:
            several = "not all jobs have" if len(ended) > 1 else "the job has not"
            raise TimedOut(f"{several} ended in time")
        time.sleep(doubled_seconds(polls, FIRST_POLL_SECONDS, desk.poll_seconds))
        polls += 1
        try:
            polled = [ended[label].number or label for label in left]  # a number is found at once
            now = {one.label: one for one in desk.find(polled).views}
        except (Gone, Invalid):
            raise
        except AndonError:
            continue  # it may come back
        for label in left:
            if label not in now:
                del ended[label]
                errors.append(deleted_meanwhile(label))
            elif now[label].state is not ended[label].state:
                changed(now[label])
        ended |= now
    return Found(list(ended.values()), errors)


def _is_over(view: JobView, may_be_held: bool) -> bool:
    return view.state.is_settled or (may_be_held and view.state is JobState.HELD)


def exit_code(view: JobView) -> int:
    """Returns the job's own exit code, as a shell reports it; 1 if it has none and did not
    succeed."""
    if view.state is JobState.SUCCEEDED:
        return 0
    return view.exit_code or (1 if view.signal is None else 128 + view.signal)
