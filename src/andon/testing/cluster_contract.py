"""The contract of every cluster, as a pytest suite that other packages can use too.

class TestMyCluster(ClusterContract):
    @pytest.fixture
    def reopen(self):
        return lambda: MyCluster(ClusterSettings("lab", "mine", 10.0, {...}))

    def away(self): ...  # a context in which the cluster refuses
    def slow(self): ...  # a context in which it does not answer in time

Jobs are short scripts of a POSIX shell. The cluster must have at least two GPUs, all free.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, cast

import pytest

from andon.errors import AndonError, Gone, Unavailable
from andon.model.codec import read
from andon.model.job.cluster import ClusterJob, ClusterNode
from andon.model.job.desk import Able, Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from andon.model.job.spec import JobSpec
from andon.model.shapes import to_json
from andon.ports import Cluster, Foreground, Previewing

OpenCluster = Callable[[], Cluster]
PATIENCE_SECONDS = 120.0
LONG = "sleep 1000"
KILL_AFTER_SECONDS = (0.0, 0.002, 0.01, 0.05, 0.2)


class ClusterContract:
    """Subclass it with a fixture `reopen`, which opens the cluster, each time as another process
    would, and with `away` and `slow`."""

    pause_seconds = 2
    """Longer than a few calls to the cluster take."""
    explains_shortage = False
    """Whether the reasons of its jobs say themselves which GPUs are missing, and who has them."""

    def away(self) -> AbstractContextManager[object]:
        """A context in which the cluster cannot be reached."""
        raise NotImplementedError

    def slow(self) -> AbstractContextManager[object]:
        """A context in which the cluster takes longer than its time limit."""
        raise NotImplementedError

    def pass_time(self, seconds: float) -> None:
        """Lets this much of the cluster's time pass."""
        time.sleep(seconds)

    def folder(self) -> str:
        """A folder that exists on the cluster's machines too."""
        return "/tmp"  # noqa: S108 - nothing is written there

    def test_a_job_runs_and_ends_with_its_exit_code(self, reopen: OpenCluster) -> None:
        cluster = reopen()
        good, bad = self._submit(cluster, "exit 0"), self._submit(cluster, "exit 3")
        ended = self._settled(cluster, good)
        assert (ended.state, ended.exit_code) == (JobState.SUCCEEDED, 0)
        assert ended.started is not None
        assert ended.ended is not None
        assert ended.submitted_at <= ended.started <= ended.ended
        failed = self._settled(cluster, bad)
        assert (failed.state, failed.exit_code) == (JobState.FAILED, 3)
        assert failed.reason

    def test_a_job_is_listed_with_what_it_was_submitted_with(self, reopen: OpenCluster) -> None:
        cluster = reopen()
        submission = self._submission(LONG, name="a name, with é")
        job = cluster.submit(submission)
        found = self._running(cluster, job)
        assert (found.name, found.label, found.gpus) == ("a name, with é", submission.label, 1)
        assert found.user
        assert found.where
        assert read(ClusterJob, to_json(found)) == found  # its values are as they are declared
        assert found.exit_code is found.ended is None
        assert found.id in [one.id for one in reopen().jobs(time.time(), everyone=True)]

    def test_the_same_label_is_one_job(self, reopen: OpenCluster) -> None:
        cluster, submission = reopen(), self._submission("echo once")
        job = cluster.submit(submission)
        assert cluster.submit(submission, True) == reopen().submit(submission, True) == job
        self._settled(cluster, job)
        assert reopen().submit(submission, again=True) == job
        assert len(self._with_label(cluster, submission.label)) == 1

    @pytest.mark.parametrize("seconds", KILL_AFTER_SECONDS)
    def test_a_client_that_is_killed_loses_and_doubles_nothing(
        self, reopen: OpenCluster, seconds: float
    ) -> None:
        submission = self._submission("echo once")
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                reopen().submit(submission)
            os._exit(0)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        job = reopen().submit(submission, again=True)
        assert [one.id for one in self._with_label(reopen(), submission.label)] == [job]

    def test_a_job_waits_with_a_reason_while_there_is_no_gpu(self, reopen: OpenCluster) -> None:
        cluster = reopen()
        holders = self._fill(cluster)
        waiting = self._submit(cluster, "echo at last")
        self._until(lambda: self._job(cluster, waiting).state is JobState.WAITING)
        assert self._job(cluster, waiting).started is None
        self._until(lambda: cluster.job(waiting).short_of_gpus or self.explains_shortage)
        assert cluster.job(waiting).reason
        self._until(lambda: all(_held(node) == node.allocated for node in cluster.nodes()))
        cluster.cancel(holders)
        assert self._settled(cluster, waiting).state is JobState.SUCCEEDED
        assert cluster.job(waiting).reason is None

    def test_more_gpus_than_any_node_has_are_refused_or_explained(
        self, reopen: OpenCluster
    ) -> None:
        cluster = reopen()
        most = max(node.gpus for node in cluster.nodes())
        with suppress(AndonError):
            job = cluster.submit(self._submission("echo never", gpus=most + 1))
            assert cluster.job(job).reason
            cluster.cancel([job])

    def test_the_output_is_read_from_a_position(self, reopen: OpenCluster) -> None:
        cluster = reopen()
        script = f"echo one; echo zwölf; sleep {self.pause_seconds}; echo three"
        job = self._submit(cluster, script)
        self._running(cluster, job)
        self._until(lambda: "zwölf" in cluster.log(job, None, 1000).text)
        begun = cluster.log(job, 0, 1000)
        assert (begun.start, begun.text, begun.ended) == (0, "one\nzwölf\n", False)
        assert begun.end == len("one\nzwölf\n".encode())
        self._settled(cluster, job)
        self._until(lambda: cluster.log(job, begun.end, 1000).ended)
        rest = cluster.log(job, begun.end, 1000)
        assert (rest.start, rest.text) == (begun.end, "three\n")
        assert cluster.log(job, rest.end, 1000).text == ""
        assert cluster.log(job, 4, 3).text == "zw"  # whole characters
        assert cluster.log(job, None, 6).text == "three\n"

    def test_a_position_in_the_output_holds_for_another_client(self, reopen: OpenCluster) -> None:
        job = self._submit(reopen(), "echo one; echo two")
        self._settled(reopen(), job)
        self._until(lambda: reopen().log(job, 0, 1000).ended)
        first = reopen().log(job, 0, 4)
        rest = reopen().log(job, first.end, 1000)
        assert (first.text, rest.start, rest.text) == ("one\n", 4, "two\n")

    def test_a_job_that_waits_has_no_output_yet(self, reopen: OpenCluster) -> None:
        cluster = reopen()
        holders = self._fill(cluster)
        job = self._submit(cluster, "echo later")
        found = cluster.log(job, None, 1000)
        assert (found.text, found.ended) == ("", False)
        cluster.cancel([*holders, job])

    def test_a_waiting_job_that_is_cancelled_never_starts(self, reopen: OpenCluster) -> None:
        cluster = reopen()
        holders = self._fill(cluster)
        job = self._submit(cluster, "echo never")
        cluster.cancel([job])
        ended = self._settled(cluster, job)
        assert (ended.state, ended.started) == (JobState.CANCELLED, None)
        reopen().cancel([job])  # again, by another client: no error
        assert self._job(reopen(), job).state is JobState.CANCELLED
        cluster.cancel(holders)

    def test_a_running_job_is_ended_by_cancel_and_stays_so(self, reopen: OpenCluster) -> None:
        cluster = reopen()
        job = self._submit(cluster, LONG)
        self._running(cluster, job)
        cluster.cancel([job])
        assert self._settled(cluster, job).state is JobState.CANCELLED
        cluster.cancel([job])  # no error where it has ended
        assert self._job(cluster, job).state is JobState.CANCELLED

    def test_an_unknown_job_is_gone(self, reopen: OpenCluster) -> None:
        cluster = reopen()
        known = self._submit(cluster, LONG)
        for ask in (
            lambda: cluster.cancel(["999999999", known]),
            lambda: cluster.log("999999999", None, 1000),
            lambda: cluster.job("999999999"),
        ):
            with pytest.raises(Gone):
                ask()
        assert self._settled(cluster, known).state is JobState.CANCELLED

    def test_ended_jobs_are_listed_since_a_time(self, reopen: OpenCluster) -> None:
        cluster = reopen()
        ended, runs = self._submit(cluster, "exit 0"), self._submit(cluster, LONG)
        at = self._settled(cluster, ended).ended
        assert at is not None
        self._running(cluster, runs)
        late = [one.id for one in cluster.jobs(at + 1)]
        assert (ended in late, runs in late) == (False, True)
        cluster.cancel([runs])

    def test_an_array_has_an_element_for_each_index(self, reopen: OpenCluster) -> None:
        cluster = reopen()
        submission = self._submission(LONG, indices=(3, 4, 7), limit=1)
        if not {Able.ARRAY, Able.ARRAY_LIMIT} <= cluster.able:
            return  # it is refused before the cluster is asked
        job = cluster.submit(submission)
        assert cluster.submit(submission, again=True) == job
        self._until(lambda: JobState.RUNNING in self._states(cluster, submission.label))
        found = self._with_label(cluster, submission.label)
        assert sorted(one.array_index or 0 for one in found) == [3, 4, 7]
        assert {one.array for one in found} == {job}
        assert sorted(self._states(cluster, submission.label)) == ["running", "waiting", "waiting"]
        cluster.cancel([job])
        cancelled = [JobState.CANCELLED] * 3
        self._until(lambda: self._states(cluster, submission.label) == cancelled)

    def test_a_job_waits_for_others(self, reopen: OpenCluster) -> None:
        cluster = reopen()
        if Able.AFTER not in cluster.able:
            return  # it is refused before the cluster is asked
        first, bad = self._submit(cluster, "sleep 2"), self._submit(cluster, "exit 1")
        second = self._submit(cluster, "exit 0", after=(first,), after_any=(bad,))
        never = self._submit(cluster, "exit 0", after=(bad,))
        ended, began = self._settled(cluster, first).ended, self._settled(cluster, second).started
        assert ended is not None
        assert began is not None
        assert began >= ended
        assert self._settled(cluster, never).state is JobState.CANCELLED

    def test_nodes_count_what_is_given_to_jobs(self, reopen: OpenCluster) -> None:
        cluster = reopen()
        before = cluster.nodes()
        assert [one.name for one in before] == sorted({one.name for one in before})
        assert all(one.usable and one.allocated + one.free <= one.gpus for one in before)
        job = self._submit(cluster, LONG)
        self._running(cluster, job)
        self._until(lambda: _allocated(cluster) == sum(one.allocated for one in before) + 1)
        assert all(_held(node) == node.allocated for node in cluster.nodes())
        cluster.cancel([job])
        self._until(lambda: _allocated(cluster) == sum(one.allocated for one in before))

    def test_a_foreground_command_behaves_as_on_this_machine(self, reopen: OpenCluster) -> None:
        if Able.FOREGROUND not in reopen().able:
            return
        cluster = cast("Foreground", reopen())
        both = cluster.foreground(self._submission("cat; echo bad >&2; exit 7"))
        done = subprocess.run(both, input=b"given", capture_output=True)
        assert (done.returncode, done.stdout) == (7, b"given")
        assert b"bad\n" in done.stderr
        # The sleep may outlive its shell by the trap, and must not keep the output open then.
        trap = "trap 'echo asked; exit 9' TERM; echo up; sleep 60 >/dev/null & wait"
        wanted = self._submission(trap)
        command = cluster.foreground(wanted)
        with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == b"up\n"
            cluster.signal(wanted, signal.SIGTERM)
            assert client.stdout.read() == b"asked\n"
        assert client.returncode == 9

    def test_a_preview_submits_nothing(self, reopen: OpenCluster) -> None:
        if Able.PREVIEW not in reopen().able:
            return
        cluster, wanted = cast("Previewing", reopen()), self._submission("echo previewed")
        assert "echo previewed" in cluster.preview(wanted)
        assert wanted.label not in {one.label for one in cluster.jobs(0.0)}

    def test_one_that_is_away_says_so_and_keeps_its_jobs(self, reopen: OpenCluster) -> None:
        job = self._submit(reopen(), LONG)
        self._running(reopen(), job)
        with self.away():
            self._fails(reopen(), job)
        assert self._job(reopen(), job).state is JobState.RUNNING
        reopen().cancel([job])

    def test_one_that_is_slow_is_unavailable(self, reopen: OpenCluster) -> None:
        with self.slow(), pytest.raises(Unavailable):
            reopen().jobs(0.0)
        reopen().jobs(0.0)

    def _fails(self, cluster: Cluster, job: str) -> None:
        for ask in (
            lambda: cluster.jobs(0.0),
            cluster.nodes,
            lambda: cluster.submit(self._submission("echo never")),
            lambda: cluster.cancel([job]),
            lambda: cluster.job(job),
        ):
            with pytest.raises(Unavailable) as caught:
                ask()
            assert caught.value.reason

    def _submission(
        self, script: str, name: str = "contract", gpus: int = 1, **more: Any
    ) -> Submission:
        request = DeviceRequest(least=gpus, most=gpus)
        job = JobSpec(0, name, ("sh", "-c", script), self.folder(), request, time.time())
        return Submission(f"t{os.urandom(6).hex()}", job, **more)

    def _submit(self, cluster: Cluster, script: str, **more: Any) -> str:
        return cluster.submit(self._submission(script, **more))

    def _fill(self, cluster: Cluster) -> list[str]:
        """Gives every free GPU to a job; returns those. The largest node first, one after the
        other: a small job on a large node would leave no room for the next."""
        free = [node.free for node in cluster.nodes() if node.usable and node.free]
        jobs = list[str]()
        for count in sorted(free, reverse=True):
            jobs.append(self._submit(cluster, LONG, gpus=count))
            self._running(cluster, jobs[-1])
        return jobs

    def _job(self, cluster: Cluster, job: str) -> ClusterJob:
        (found,) = [one for one in cluster.jobs(0.0) if one.id == job]
        return found

    def _with_label(self, cluster: Cluster, label: str) -> Sequence[ClusterJob]:
        return [one for one in cluster.jobs(0.0) if one.label == label]

    def _states(self, cluster: Cluster, label: str) -> list[JobState]:
        return [one.state for one in self._with_label(cluster, label)]

    def _running(self, cluster: Cluster, job: str) -> ClusterJob:
        self._until(lambda: self._job(cluster, job).state is JobState.RUNNING)
        return self._job(cluster, job)

    def _settled(self, cluster: Cluster, job: str) -> ClusterJob:
        self._until(lambda: self._job(cluster, job).state.is_settled)
        return self._job(cluster, job)

    def _until(self, holds: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < end, "it never came"
            self.pass_time(0.2)


def _held(node: ClusterNode) -> int:
    return sum(one.gpus for one in node.holders)


def _allocated(cluster: Cluster) -> int:
    return sum(one.allocated for one in cluster.nodes())
