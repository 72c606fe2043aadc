"""The output of jobs as it comes, and a job that is followed as if it ran at this terminal."""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from andon.cli.show.jobs import why
from andon.cli.show.waiting import LineInPlace, waited_text
from andon.cli.sources import settings_of
from andon.cli.terminal import Choices, notice, write
from andon.errors import AndonError, Gone, Invalid
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.desk import JobDesk
from andon.jobs.rules.able import refuse
from andon.jobs.rules.polling import FRESH_SECONDS
from andon.jobs.waiting import exit_code, wait
from andon.model.job.desk import Able, JobAct, JobName, LogPart, Submission
from andon.model.job.facts import WAITS, JobState
from andon.model.job.spec import without_own_secrets
from andon.work.dropped_lines import without_lines
from andon.work.launcher import Launcher

LOG_BYTES, LONG_LINE_BYTES = 1 << 20, 1 << 10
LOG_POLL_SECONDS = 1.0
FIRST_CHECK_SECONDS = 2.0  # most jobs at a terminal have started by then


class JobOutput:
    """The output of a job, part by part; when it is started again, of its next attempt."""

    def __init__(self, desk: JobDesk, job: JobName, attempt: int | None = None) -> None:
        self.desk, self.job, self.ended = desk, job, False
        self._fixed, self._attempt, self._place, self._rest = attempt, attempt, 0, ""

    def begin(self, lines: int) -> bool:
        """Begins with the last lines, 0 for all; returns whether earlier ones are left out. Of a
        very long line, such as a progress bar's, a part is enough."""
        if not lines:
            return False
        part = self._log(None, max(LOG_BYTES, lines * LONG_LINE_BYTES))
        self._rest = last_lines(part.text, lines)
        return part.start > 0 or len(self._rest) < len(part.text)

    def read(self) -> str:
        """Returns new output; empty if there is none."""
        if self._rest:
            text, self._rest = self._rest, ""
            return text
        return self._log(self._place, LOG_BYTES).text

    def show(self) -> bool:
        """Prints new output; returns whether there was any."""
        shown = False
        while text := self.read():
            write(sys.stdout, text)
            shown = True
        return shown

    def _log(self, start: int | None, most: int) -> LogPart:
        part = self.desk.log(self.job, start, most, self._fixed)
        if part.attempt != self._attempt and start:
            part = self.desk.log(self.job, 0, most, self._fixed)
        self._attempt, self._place, self.ended = part.attempt, part.end, part.ended
        return part


def last_lines(text: str, lines: int) -> str:
    """Returns the last lines of a text, as they are."""
    at = len(text) - text.endswith("\n")
    for _ in range(lines):
        if (at := text.rfind("\n", 0, max(at, 0))) < 0:
            return text
    return text[at + 1 :]


def follow(choices: Choices, output: JobOutput) -> None:
    """Prints a job's output until the job has ended; while it waits, the reason, or that its
    cluster does not answer. Returns on a final state even if the output does not end."""
    line = _WaitingJob(choices, output)
    try:
        while not _is_over(choices, output, line):
            time.sleep(min(LOG_POLL_SECONDS, output.desk.poll_seconds))
    except Gone:
        if Able.QUEUED not in output.desk.able:
            raise  # here, its user has deleted it
    finally:
        line.clear()


def _is_over(choices: Choices, output: JobOutput, line: "_WaitingJob") -> bool:
    try:
        while text := output.read():
            line.clear()
            write(sys.stdout, text)
    except (Gone, Invalid):
        raise
    except AndonError as error:
        return line.check(error)
    return output.ended or line.check()


def follow_many(outputs: Mapping[str, JobOutput], show: Callable[[str], bool]) -> None:
    """Prints the outputs of several jobs as they come, until all have ended. Jobs that have not
    started are skipped."""
    while left := [label for label, one in outputs.items() if not one.ended]:
        desk = outputs[left[0]].desk
        time.sleep(desk.poll_seconds)
        with suppress(AndonError):  # it may come back
            waiting = {one.label for one in desk.find([outputs[x].job for x in left]).views
                       if one.state in WAITS and not one.attempts}  # fmt: skip
            for label in (one for one in left if one not in waiting):
                try:
                    while show(label):
                        pass
                except Gone:
                    outputs[label].ended = True


class _WaitingJob(LineInPlace):
    """The line in the terminal that explains why a job has not started, or why its state is
    unknown."""

    def __init__(self, choices: Choices, output: JobOutput) -> None:
        super().__init__(choices)
        self._output, self._checked_at, self._away = output, float("-inf"), ""
        self._settled = 0

    def check(self, error: AndonError | None = None) -> bool:
        """Polls the job and updates the line; returns whether the job has ended although its output
        has not."""
        now, desk = time.monotonic(), self._output.desk
        if now - self._checked_at < desk.poll_seconds:
            return False
        self._checked_at = now
        with suppress(AndonError):
            for view in desk.find([self._output.job]).views:
                if view.state.is_settled:
                    self.clear()
                    self._settled += 1  # the second time there is nothing more to come
                    return self._settled > 1
                if view.state in WAITS:
                    at = time.time()
                    waits = view.state is JobState.WAITING
                    waited = waited_text(max(0.0, at - view.submitted_at))
                    state = f"job {view.label} {waited if waits else view.state.text}"
                    reason = why(view, at)
                    line = f"{state} · {reason}" if reason else state
                    self.show(line, (view.state, view.position, view.reason))
                else:
                    self.clear()
            return False
        if error is not None and error.reason != self._away:
            self._away = error.reason
            notice(f"{error.reason}; trying again", self._choices)
        return False


def report_why_it_waits(
    choices: Choices, desk: ClusterDesk, label: str, over: threading.Event
) -> None:
    """Reports each reason why a job at this terminal has not started: its launcher prints nothing
    until it has."""
    reported, pause = "", FIRST_CHECK_SECONDS
    while not over.wait(pause):
        pause = FRESH_SECONDS
        with suppress(AndonError):
            job = next((one for one in desk.latest().jobs if one.label == label), None)
            if job is not None and (job.started is not None or job.state.is_settled):
                return
            if job is not None and job.reason and job.reason != reported and not over.is_set():
                reported = job.reason
                notice(f"job {desk.name}:{job.id} waits: {reported}", choices)


def run_at_terminal(choices: Choices, desk: ClusterDesk, submission: Submission) -> int:
    """Runs a job and returns its exit code: at this terminal if the cluster can do that, else it
    is submitted and its output followed; Ctrl-C cancels it."""
    refuse(desk, [submission])
    desk, note = desk.host_for(submission)
    if note:
        notice(note, choices)
    if (there := desk.foreground()) is not None:
        command = desk.ask(lambda _: there.foreground(submission))
        grace = settings_of(choices).work_grace_seconds
        send = partial(there.signal, submission)
        over, call = threading.Event(), (choices, desk, submission.label)
        with without_lines(there.own_lines) as errors:
            passed = without_own_secrets(os.environ)
            client = Launcher(command, passed, grace, elsewhere=send, errors=errors)
            threading.Thread(target=report_why_it_waits, args=(*call, over), daemon=True).start()
            try:
                return client.run(lambda: None, notice).code
            finally:
                over.set()
    (accepted,) = desk.submit([submission])
    label = accepted.label
    notice("; ".join(filter(None, (f"running as {label}", accepted.note))), choices)
    try:
        follow(choices, JobOutput(desk, label))
        found, unknown = wait(desk, [label])
    except KeyboardInterrupt:
        for one in desk.act(JobAct.CANCEL, [label]):
            notice(f"job {label} {one.text or f'may still run: {one.error}'}", choices)
        raise
    for error in unknown:
        raise error
    if found[0].error:
        notice(f"job {label} {found[0].state.text}: {found[0].error}", choices)
    return exit_code(found[0])
