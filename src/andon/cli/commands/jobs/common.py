"""What the commands about jobs share: the queue, the jobs that are meant, and waiting for them."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from andon.cli.commands.completing import complete_job
from andon.cli.options import chosen
from andon.cli.terminal import Choices, notice, report
from andon.errors import AndonError, Gone
from andon.jobs.queue import Queue
from andon.jobs.starting import start_dispatcher
from andon.model.job.facts import JobFacts, JobState, JobView
from andon.units import sh, shell_line

JOB_FORMS = (
    "JOB is a number, a name, a group, @ for the last one, 12_3 for an element of an array, or "
    "lab:4711 for a job of the cluster lab."
)
QUEUE_JOB_FORMS = (
    "JOB is a number, a name, a group, @ for the last one, or 12_3 for an element of an array."
)
MOST_WAITING, MOST_ENDED = 50, 10  # shown without --all
POLL_SECONDS = 0.2
SLOW_POLL_SECONDS = 2.0


def job_words(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds JOB… as arguments; at least one is required."""
    return click.argument(
        "jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=complete_job
    )(command)


def open_queue(choices: Choices, wake: bool = True) -> Queue:
    """The queue as it is now; a dispatcher is started where jobs wait and none runs."""
    queue = Queue()
    for path, why in list(queue.unread.items())[:5]:
        notice(_passed_over(path, why), choices)
    active = any(not found.state.is_settled for found in queue.statuses.values())
    if wake and active and not queue.paused:
        start_dispatcher(queue.folder)
    return queue


def _passed_over(path: str, why: str) -> str:
    """Returns the notice about a file that cannot be read."""
    folder = Path(path).parent
    if folder.name.isdecimal():
        give_up = f"rm -r {sh(folder)}"
        return f"job {folder.name} is passed over: job.json: {why}; to give it up: {give_up}"
    return f"{path} is passed over: {why}"


def meant_jobs(
    queue: Queue,
    words: Sequence[str],
    only_one: bool = False,
    fits: Callable[["JobState"], bool] | None = None,
) -> tuple[list[JobFacts], int]:
    """Returns every job that the arguments name, once, and an exit code. An argument that names
    none is reported, sets the exit code, and does not stop the others. `only_one` and `fits`
    narrow a name that several jobs have."""
    from andon.jobs.rules.naming import NameRule, meant

    known = queue.statuses
    rule = NameRule(_tell, only_one, None if fits is None else lambda n: fits(known[n].state))
    numbers, code = dict[int, None](), 0
    for word in words:
        try:
            numbers |= dict.fromkeys(meant(word, queue.jobs, rule))
        except AndonError as error:
            report(error)
            code = error.exit_code
    return [queue.jobs[number] for number in numbers], code


def one_job(queue: Queue, word: str) -> int:
    """Returns the number of the one job that the argument names."""
    from andon.jobs.rules.naming import NameRule, one_meant

    return one_meant(word, queue.jobs, NameRule(_tell))


def _tell(words: str) -> None:
    notice(words, chosen())


def wait_settled(
    queue: Queue,
    numbers: Iterable[int],
    changed: Callable[["JobView"], None] | None = None,
    each: Callable[[], None] = lambda: None,
) -> list[int]:
    """Waits until all of these jobs have ended or are held; returns those that were deleted
    meanwhile. `changed` is called with each job that changes, `each` at every poll: what it
    raises ends the wait."""
    left, deleted = set(numbers), []
    seen: dict[int, str] = {}
    rung, looked = -1, 0.0
    while left:
        now, news = time.monotonic(), queue.folder.rung()
        if news != rung or now - looked >= SLOW_POLL_SECONDS:
            rung, looked = news, now
            queue.refresh()
            for number in sorted(left):
                found = queue.statuses.get(number)
                if found is None:
                    deleted.append(number)
                if found is None or found.state.is_settled or found.state is JobState.HELD:
                    left.discard(number)
                if changed is not None and found is not None and seen.get(number) != found.state:
                    seen[number] = found.state
                    changed(queue.views([number])[0])
            if left:
                start_dispatcher(queue.folder)
        if left:
            each()
            time.sleep(POLL_SECONDS)
    return deleted


def worst_code(queue: Queue, numbers: Sequence[int], deleted: Sequence[int]) -> int:
    """The worst exit code of the jobs that were waited for; a deleted job counts as unknown."""
    codes = [exit_code(view) for view in queue.views(numbers)]
    return max([*codes, *(deleted_meanwhile(str(number)) for number in deleted)], default=0)


def deleted_meanwhile(label: str) -> int:
    """Prints that a job was deleted while it was waited for; returns the exit code."""
    error = Gone(f"job {label} was deleted meanwhile: how it ended is not known")
    report(error)
    return error.exit_code


@contextmanager
def going_on(choices: Choices, labels: Sequence[str]) -> Iterator[None]:
    """Prints, if the user stops waiting, that the jobs continue and how to end them."""
    try:
        yield
    except KeyboardInterrupt:
        several = len(labels) > 1
        which = f"job{'s' * several} {', '.join(labels)} go{'' if several else 'es'} on"
        them = "them" if several else "it"
        notice(f"{which}; to end {them}: andon cancel {shell_line(*labels)}", choices)
        raise


def exit_code(view: JobView) -> int:
    """Returns the job's own exit code; 1 if it has none and did not succeed."""
    if view.state is JobState.SUCCEEDED:
        return 0
    return view.exit_code or 1
