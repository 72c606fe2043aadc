"""`andon logs`: the output of a job, once or while it runs."""

import os
import sys
import time
from codecs import getincrementaldecoder
from collections.abc import Callable
from pathlib import Path

import click

from andon.cli.commands.completing import complete_job
from andon.cli.commands.jobs.clusters import one_apart
from andon.cli.commands.jobs.common import JOB_FORMS, meant_jobs, open_queue, wait_settled
from andon.cli.commands.jobs.following import logs_there
from andon.cli.options import MOST, chosen, shared
from andon.cli.show.jobs import why
from andon.cli.show.waiting import LineInPlace, waited_words
from andon.cli.terminal import Choices, notice, write
from andon.errors import Gone, Invalid
from andon.host.files import open_regular
from andon.jobs.queue import Queue
from andon.jobs.starting import start_dispatcher
from andon.model.job.facts import JobState
from andon.units import counted, sh

LINES = 15
PIECE_BYTES = 1 << 16
MOST_LAST_BYTES, LONG_LINE_BYTES = 1 << 20, 1 << 10
POLL_SECONDS = 0.2
WAITS = (JobState.WAITING, JobState.HELD, JobState.LATER)


def count(text: str | int) -> int:
    """Parses the value of -n; 0 means all."""
    given = str(text)
    if given.isdecimal() and len(given) <= len(str(MOST)):
        return int(given)
    raise click.BadParameter(f"{given[:40]!r} is not a whole number from 0 to {MOST}")


@click.command(epilog=JOB_FORMS)
@click.argument("job", metavar="[JOB]", default="@", shell_complete=complete_job)
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the job has ended.")
@click.option(
    "-n", "lines", type=count, metavar="N", help=f"Print the last N lines; 0 for all [{LINES}]."
)
@click.option(
    "--attempt", type=count, metavar="N", help="Output of this attempt [default: the last]."
)
@shared
def logs(job: str, follow: bool, lines: int | None, attempt: int | None) -> int:
    """Print the output of a job, standard output and standard error together."""
    choices = chosen()
    there = one_apart(choices, job)
    if there is not None:
        if attempt is not None:
            raise Invalid("--attempt is for jobs on this machine")
        return logs_there(choices, *there, LINES if lines is None else lines, follow)
    queue = open_queue(choices)
    found, code = meant_jobs(queue, [job])
    if code:
        return code
    numbers = [facts.spec.number for facts in found]
    if len(numbers) > 1:
        return _logs_of_many(choices, queue, numbers, LINES if lines is None else lines, follow)
    number, begun = numbers[0], [one.number for one in found[0].attempts]
    if attempt is not None and attempt not in begun:
        raise Gone(f"job {job} has no attempt {attempt}", hint=f"it has {len(begun)}")
    if not begun and not follow:
        view = queue.views([number])[0]
        why = f": {view.reason}" if view.reason else ""
        notice(f"job {view.label} has not started: it is {view.state.words}{why}", choices)
        return 0
    output = _Output(queue, number, attempt)
    cut = output.find_last(LINES if lines is None else lines)
    if cut and lines is None:
        notice(f"the last {LINES} lines; all of them: andon logs {sh(job)} -n 0", choices)
    output.show_new()
    if follow:
        output.follow(choices)
    return 0


def _logs_of_many(
    choices: Choices, queue: Queue, numbers: list[int], lines: int, follow: bool
) -> int:
    """Prints the output of each job under a line with its parameters; then what comes, until all
    have ended."""
    outputs = {number: _Output(queue, number, None) for number in numbers}
    shown = list[int]()

    def show() -> None:
        for number, output in outputs.items():
            if shown[-1:] != [number] and output.has_new():
                spec = queue.jobs[number].spec if number in queue.jobs else None
                params = () if spec is None else (f"{n}={v}" for n, v in spec.params.items())
                title = " ".join((str(number) if spec is None else spec.label, *params))
                write(sys.stdout, f"==> job {title} <==\n")
                shown.append(number)
            output.show_new()

    for output in outputs.values():
        output.find_last(lines)
    show()
    if follow:
        wait_settled(queue, numbers, each=show)
        show()
    elif not shown:
        notice(f"none of these {counted(len(numbers), 'job')} has printed anything yet", choices)
    return 0


class _Output:
    """The output of a job; when it is started again, of its next attempt."""

    def __init__(self, queue: Queue, number: int, attempt: int | None) -> None:
        self._queue, self._number, self._fixed = queue, number, attempt
        self._place, self._attempt = 0, 0
        self._decoder = getincrementaldecoder("utf-8")("replace")  # a piece may end in a character

    def _path(self) -> Path | None:
        facts = self._queue.jobs.get(self._number)  # none where it was deleted meanwhile
        last = None if facts is None else facts.last
        attempt = self._fixed or (0 if last is None else last.number)
        if not attempt:
            return None
        if attempt != self._attempt:
            self._attempt, self._place = attempt, 0
            self._decoder.reset()
        return self._queue.folder.output(self._number, attempt)

    def find_last(self, lines: int) -> bool:
        """Begins with the last lines, 0 for all; returns whether earlier ones are left out."""
        path = self._path()
        if path is None:
            return False
        try:
            with os.fdopen(open_regular(path), "rb") as file:
                self._place = _start_of_last(file.fileno(), lines)
        except OSError:
            return False
        return self._place > 0

    def follow(self, choices: Choices, pause: Callable[[float], object] = time.sleep) -> None:
        """Prints the output until the job has ended; while it waits, prints why."""
        line = LineInPlace(choices)
        try:
            while True:
                self._queue.refresh()
                found = self._queue.statuses.get(self._number)
                if found is not None and found.state in WAITS:
                    self._say_why(line)
                else:
                    line.clear()
                self.show_new()
                if found is None or found.state.is_settled:
                    self.show_new()
                    return
                start_dispatcher(self._queue.folder)
                pause(POLL_SECONDS)
        finally:
            line.clear()

    def _say_why(self, line: LineInPlace) -> None:
        view, now = self._queue.views([self._number])[0], time.time()
        waits = view.state is JobState.WAITING
        words = waited_words(max(0.0, now - view.submitted_at)) if waits else view.state.words
        reason = why(view, now)
        line.show(f"job {view.label} {words} · {reason}", (view.state, view.position, view.reason))

    def has_new(self) -> bool:
        path = self._path()
        try:
            return path is not None and path.stat().st_size > self._place
        except OSError:
            return False

    def show_new(self) -> None:
        path = self._path()
        if path is None:
            return
        try:
            descriptor = open_regular(path)
        except OSError:
            return
        with os.fdopen(descriptor, "rb") as file:
            if (size := os.fstat(descriptor).st_size) < self._place:  # it was shortened
                self._place = size
                self._decoder.reset()
            file.seek(self._place)
            while piece := file.read(PIECE_BYTES):
                self._place += len(piece)
                write(sys.stdout, self._decoder.decode(piece))


def _start_of_last(descriptor: int, lines: int) -> int:
    """Returns the offset where the last lines begin; 0 means all. Of a very long line, such as a
    progress bar's, a part is enough."""
    size = place = os.fstat(descriptor).st_size
    if not lines:
        return 0
    found, first = 0, max(0, size - max(MOST_LAST_BYTES, lines * LONG_LINE_BYTES))
    while place > first:
        start = max(first, place - PIECE_BYTES)
        piece = os.pread(descriptor, min(place, size - 1) - start, start)
        end = len(piece)
        while (end := piece.rfind(b"\n", 0, end)) >= 0:
            found += 1
            if found == lines:
                return start + end + 1
        place = start
    return first
