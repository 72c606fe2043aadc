"""The output of a cluster's job, and a job that is followed as if it ran here."""

import os
import sys
import threading
import time
from contextlib import suppress
from functools import partial

from andon.cli.commands.jobs.elsewhere import cancel_there, views_there
from andon.cli.show.waiting import LineInPlace, waited_words
from andon.cli.sources import settings_of
from andon.cli.terminal import Choices, notice, write
from andon.errors import AndonError, Gone, Invalid
from andon.jobs.clusters.asking import OpenCluster
from andon.jobs.clusters.submitting import code_of, jobs_there, submit_there, wait_there
from andon.jobs.rules.cluster_views import named
from andon.jobs.rules.polling import FRESH_SECONDS
from andon.model.job.cluster import ClusterLog, Submission
from andon.model.job.facts import JobState
from andon.model.job.spec import without_own_secrets
from andon.ports import Foreground
from andon.work.dropped_lines import without_lines
from andon.work.launcher import Launcher

LOG_BYTES = 1 << 20
LOG_POLL_SECONDS = 1.0
FIRST_LOOK_SECONDS = 2.0  # most jobs at a terminal have started by then


def logs_there(choices: Choices, cluster: OpenCluster, job: str, lines: int, follow: bool) -> int:
    """Prints the output of a job: its last lines, or all; then what comes, until it ends."""
    try:
        part = _log(cluster, job, None if lines else 0)
    except Gone:
        elements = [one.id for one in jobs_there(cluster, [job])]
        if job in elements:
            raise
        for one in elements:
            write(sys.stdout, f"==> job {named(cluster.name, one)} <==\n")
            logs_there(choices, cluster, one, lines, follow)
        return 0
    if lines:
        kept = part.text.splitlines(keepends=True)[-lines:]
        part = ClusterLog(part.start, part.end, "".join(kept), part.ended)
    if not part.text and not follow:
        (view,) = views_there(cluster, [job])
        if view.started is None:
            why = f": {view.reason}" if view.reason else ""
            notice(f"job {view.label} has not started: it is {view.state.words}{why}", choices)
    write(sys.stdout, part.text)
    if follow or not lines:
        follow_log(choices, cluster, job, part, follow)
    return 0


def _log(cluster: OpenCluster, job: str, start: int | None) -> ClusterLog:
    return cluster.ask(lambda there: there.log(job, start, LOG_BYTES))


def log_of(cluster: OpenCluster, job: str) -> str:
    """Returns all of a job's output."""
    texts, end = list[str](), 0
    while (part := _log(cluster, job, end)).text:
        texts.append(part.text)
        end = part.end
    return "".join(texts)


def follow_log(
    choices: Choices, cluster: OpenCluster, job: str, part: ClusterLog, wait: bool
) -> None:
    """Prints what follows this part; with `wait`, until the job has ended, and why it waits."""
    waiting = _WaitingJob(choices, cluster, job)
    try:
        while True:
            try:
                part = _log(cluster, job, part.end)
            except AndonError as error:
                if not wait or isinstance(error, Gone | Invalid):
                    raise
                part = ClusterLog(part.end, part.end, "", False)  # it may come back
            if part.text:
                waiting.clear()
                write(sys.stdout, part.text)
            elif part.ended or not wait:
                return
            else:
                waiting.look(started=part.end > 0)
                time.sleep(LOG_POLL_SECONDS)
    finally:
        waiting.clear()


class _WaitingJob(LineInPlace):
    """The line that says why a job has not started yet."""

    def __init__(self, choices: Choices, cluster: OpenCluster, job: str) -> None:
        super().__init__(choices)
        self._cluster, self._job, self._looked = cluster, job, float("-inf")

    def look(self, started: bool) -> None:
        """Asks why it waits, now and then, until it has started."""
        now = time.monotonic()
        if started or now - self._looked < FRESH_SECONDS:
            return
        self._looked = now
        with suppress(AndonError):
            (view,) = views_there(self._cluster, [self._job])
            if view.started is not None or view.state.is_settled:
                self.clear()
                return
            waited = waited_words(max(0.0, time.time() - view.submitted_at))
            why = f" · {view.reason}" if view.reason else ""
            self.show(f"job {view.label} {waited}{why}", (view.state, view.reason))


def say_why_it_waits(
    choices: Choices, cluster: OpenCluster, label: str, over: threading.Event
) -> None:
    """Says why a job at this terminal has not started, once for each reason: what runs it there is
    silent until it has."""
    said, pause = "", FIRST_LOOK_SECONDS
    while not over.wait(pause):
        pause = FRESH_SECONDS
        with suppress(AndonError):
            jobs = cluster.ask(lambda there: list(there.jobs(time.time())))
            job = next((one for one in jobs if one.label == label), None)
            if job is not None and (job.started is not None or job.state.is_settled):
                return
            if job is not None and job.reason and job.reason != said and not over.is_set():
                said = job.reason
                notice(f"job {named(cluster.name, job.id)} waits: {said}", choices)


def run_there(choices: Choices, cluster: OpenCluster, submission: Submission) -> int:
    """Runs a job and returns its exit code: at this terminal if the cluster can do that, else it
    is submitted and its output followed; Ctrl-C cancels it."""
    opened = cluster.open()
    if isinstance(opened, Foreground):
        command = cluster.ask(lambda _: opened.foreground(submission))
        grace = settings_of(choices).work_grace_seconds
        send = partial(opened.signal, submission)
        over, asked = threading.Event(), (choices, cluster, submission.label)
        with without_lines(opened.own_lines) as errors:
            passed = without_own_secrets(os.environ)
            client = Launcher(command, passed, grace, elsewhere=send, errors=errors)
            threading.Thread(target=say_why_it_waits, args=(*asked, over), daemon=True).start()
            try:
                return client.run(lambda: None, notice).code
            finally:
                over.set()
    label = submit_there(cluster, submission)
    job = label.removeprefix(f"{cluster.name}:")
    notice(f"running as {label}", choices)
    try:
        follow_log(choices, cluster, job, ClusterLog(0, 0, "", False), wait=True)
        (ended,) = wait_there(cluster, [job])
    except KeyboardInterrupt:
        cancel_there(choices, cluster, [job])
        raise
    if ended.state is not JobState.SUCCEEDED and ended.reason:
        notice(f"job {label} {ended.state.words}: {ended.reason}", choices)
    return code_of(ended)
