"""The dispatcher between two looks: what it goes on after, and whom it notifies."""

import os
import signal
import socket
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from andon.app.dispatcher import _dispatch
from andon.errors import Conflict, Unavailable
from andon.jobs import acts
from andon.jobs import dispatcher as dispatching
from andon.jobs.dispatcher import Dispatcher, Kind
from andon.jobs.folder import CLAIM, END, HELD, JobsFolder
from andon.jobs.launching import DispatcherSettings, Supervisor
from andon.jobs.queue import Queue
from andon.jobs.rules.dispatch import DispatchPlan, PlannedStart
from andon.jobs.rules.states import JobStatus
from andon.jobs.starting import lock_dispatcher
from andon.jobs.taking import MOST_TICKETS, BlockReason, DeviceTaker, DispatchRound
from andon.model.codec import to_json
from andon.model.device import Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import AttemptClaim, AttemptEnd, EndReason, JobFacts, JobState, dumps
from andon.model.job.spec import JobSpec, NotifyWhen
from tests.support.counting import python_calls
from tests.support.noticed import noticed
from tests.support.waiting import wait_for

AT = 1_790_000_000.0
SETTINGS = DispatcherSettings(log_bytes=1_000_000, idle_seconds=0.0, grace_seconds=10.0)


def no_device(kind: Kind) -> DeviceTaker:
    raise Unavailable("there is no GPU here")


def dispatcher(folder: JobsFolder, heard: list[JobFacts] | None = None) -> Dispatcher:
    return Dispatcher(folder, SETTINGS, no_device, (heard if heard is not None else []).extend)


def ended_job(folder: JobsFolder, at: float = AT, **more: Any) -> int:
    """A job whose command has ended, and of which no dispatcher has taken note."""
    [spec] = folder.submit([JobSpec(0, "x", ("true",), "/", DeviceRequest(), at, **more)])
    attempt = folder.attempt(spec.number, 1)
    attempt.mkdir()
    claim = AttemptClaim(5, 6, "boot", 7, 8, at)
    end = AttemptEnd(EndReason.EXITED, at, at + 9, 9.0, 3)
    (attempt / CLAIM).write_text(dumps(to_json(claim)))
    (attempt / END).write_text(dumps(to_json(end)))
    return spec.number


def test_the_end_of_a_job_is_told_although_no_dispatcher_ran_then(tmp_path: Path) -> None:
    folder, heard = JobsFolder(tmp_path), list[JobFacts]()
    number = ended_job(folder, notify=NotifyWhen.FAIL)
    ended_job(folder)
    for _ in range(2):  # the second one finds what the first one wrote
        one = dispatcher(folder, heard)
        one.step()
        one.close()
    assert [facts.spec.number for facts in heard] == [number]


def test_a_message_that_a_killed_dispatcher_was_sending_is_sent_by_the_next(tmp_path: Path) -> None:
    folder, heard = JobsFolder(tmp_path), list[JobFacts]()

    def killed(ended: Sequence[JobFacts]) -> None:
        raise Unavailable("no network")  # nothing is noted, as of one that is killed here

    jobs = [ended_job(folder, time.time(), notify=NotifyWhen.END, group="g") for _ in range(2)]
    old = ended_job(folder, notify=NotifyWhen.END)
    for send in (killed, heard.extend, heard.extend):
        one = Dispatcher(folder, SETTINGS, no_device, send)
        one.step()
        one.close()
    assert [facts.spec.number for facts in heard] == jobs
    assert old not in jobs


@pytest.mark.slow
def test_the_end_of_a_whole_array_is_few_messages_and_one_at_a_time(tmp_path: Path) -> None:
    """Whatever the notifier does: a thread and a process for each job would be thousands."""
    folder, heard, goes_on = JobsFolder(tmp_path), list[list[int]](), threading.Event()
    failures: list[Exception] = [Unavailable("refused"), ValueError("odd")]

    def slow(ended: Sequence[JobFacts]) -> None:
        heard.append([facts.spec.number for facts in ended])
        goes_on.wait(60.0)
        if failures:
            raise failures.pop()

    numbers = [ended_job(folder, notify=NotifyWhen.END) for _ in range(40)]
    one = Dispatcher(folder, SETTINGS, no_device, slow)
    before = threading.active_count()
    one.step()
    wait_for(lambda: heard)
    later = ended_job(folder, notify=NotifyWhen.END)
    folder.ring()
    one.step()
    assert threading.active_count() <= before + 1
    assert not one.is_idle(), "a message is being sent"
    goes_on.set()
    one.close()
    assert len(heard) <= 3
    assert [number for some in heard for number in some] == [*numbers, later]
    assert one.is_idle()


class Failing(JobsFolder):
    """A folder on a file system that fails for a moment: at the bell, or at an attempt."""

    def __init__(self, path: Path, at: str) -> None:
        super().__init__(path)
        self.failures = {at: OSError(116, "Stale file handle")}

    def _fail(self, at: str) -> None:
        if at in self.failures:
            raise self.failures.pop(at)

    def changed_at(self) -> int:
        self._fail("bell")
        return super().changed_at()

    def attempt(self, number: int, attempt: int) -> Path:
        self._fail("attempt")
        return super().attempt(number, attempt)


@pytest.mark.slow
def test_a_file_system_that_fails_for_a_moment_ends_no_dispatcher(tmp_path: Path) -> None:
    folder = Failing(tmp_path, "bell")
    dispatcher(folder).run(failed_seconds=0.0)
    assert folder.failures == {}


@pytest.mark.process
def test_a_supervisor_that_has_ended_is_not_signalled() -> None:
    supervisor = Supervisor()
    supervisor.let_go()
    wait_for(lambda: supervisor.has_ended)
    with noticed("os.kill") as sent:
        supervisor.kill()
    assert sent == []


@pytest.mark.process
def test_a_supervisor_that_takes_nothing_holds_up_no_one() -> None:
    supervisor, (ours, theirs) = Supervisor(), socket.socketpair()
    os.kill(supervisor.pid, signal.SIGSTOP)
    held: Any = SimpleNamespace(hold=SimpleNamespace(descriptors=(ours.fileno(),)))
    with ours, theirs, pytest.raises(TimeoutError):
        supervisor.send({"environment": {"LARGE": "x" * 4_000_000}}, held, timeout_seconds=0.1)
    supervisor.kill()
    supervisor.let_go()


def test_settings_that_cannot_be_read_are_why_a_job_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "andon.toml"
    config.write_text("nonsense = = ")
    monkeypatch.setenv("ANDON_CONFIG", str(config))
    folder = JobsFolder(tmp_path / "jobs")
    folder.path.mkdir()
    folder.submit([JobSpec(0, "x", ("true",), "/", DeviceRequest(), AT)])
    ended_job(folder)
    lock = lock_dispatcher(folder)
    assert lock is not None
    assert _dispatch(folder, lock) == folder.changed_at()
    os.close(lock)
    [view] = Queue(folder).views([1])
    assert (view.reason or "").startswith(f"no job can start: {config}:1: not valid TOML")
    assert folder.holdups().keys() == {1}


class Turns:
    """Devices for many jobs while other users wait; none gets its own after all."""

    sampler = None

    def names(self) -> frozenset[str]:
        return frozenset()

    def decide(self, jobs: list[JobFacts], avoided: object = None) -> DispatchRound:
        starts = tuple(PlannedStart(one.spec.number, ("GPU-0",)) for one in jobs)
        view: Any = SimpleNamespace(snapshot=Snapshot("n", AT))
        return DispatchRound(view, DispatchPlan(starts), others=True)

    def take(self, *asked: object) -> BlockReason:
        return BlockReason("taken meanwhile")

    def stand_in_line(self, *found: object) -> None: ...
    def leave(self) -> None: ...
    def close(self) -> None: ...


@pytest.mark.process
def test_a_job_that_could_start_but_for_the_turn_of_others_says_so(tmp_path: Path) -> None:
    """Each that may have a ticket is tried: the first of the plan need not be the first in line."""
    folder = JobsFolder(tmp_path)
    folder.submit(JobSpec(0, "x", ("true",), "/", DeviceRequest(), AT) for _ in range(6))
    turns: Any = Turns()
    one = Dispatcher(folder, SETTINGS, lambda kind: turns, print)
    one.step()
    one.close()
    wait_for(lambda: _reaped(one))
    reasons = {number: found.reason for number, found in folder.holdups().items()}
    tried = dict.fromkeys(range(1, MOST_TICKETS + 1), "taken meanwhile")
    assert reasons == {**tried, 5: dispatching.IN_TURN, 6: dispatching.IN_TURN}


def _reaped(one: Dispatcher) -> bool:
    one._pool.reap()
    return not one._pool._leaving


class HeldMeanwhile(Turns):
    """Its jobs are held while the devices are read."""

    def __init__(self, folder: JobsFolder) -> None:
        self._folder = folder

    def decide(self, jobs: list[JobFacts], avoided: object = None) -> DispatchRound:
        for one in jobs:
            acts.hold(self._folder, one, JobStatus(JobState.WAITING, 1))
        return super().decide(jobs)

    def take(self, *asked: object) -> BlockReason:
        raise AssertionError("a held job is started")


@pytest.mark.process
def test_a_job_that_is_held_while_it_is_about_to_start_does_not_start(tmp_path: Path) -> None:
    folder = JobsFolder(tmp_path)
    folder.submit([JobSpec(0, "x", ("true",), "/", DeviceRequest(), AT)])
    taker: Any = HeldMeanwhile(folder)
    one = Dispatcher(folder, SETTINGS, lambda kind: taker, print)
    one.step()
    one.close()
    wait_for(lambda: _reaped(one))
    [view] = Queue(folder).views([1])
    assert view.state is JobState.HELD


def test_a_job_that_began_while_it_was_held_is_not_said_to_be_held(tmp_path: Path) -> None:
    folder = JobsFolder(tmp_path)
    number = ended_job(folder)
    facts = JobFacts(folder.spec(number))
    with pytest.raises(Conflict, match="is running"):
        acts.hold(folder, facts, JobStatus(JobState.WAITING, 1))
    assert not (folder.job(number) / HELD).exists()


class Vain(Turns):
    """A retry that asks for more than any device has."""

    def decide(self, jobs: list[JobFacts], avoided: object = None) -> DispatchRound:
        view: Any = SimpleNamespace(snapshot=Snapshot("n", AT))
        vain = {one.spec.number: "no GPU here has more" for one in jobs}
        return DispatchRound(view, DispatchPlan(), vain=vain)


def test_a_job_that_nothing_here_can_ever_meet_fails_at_once(tmp_path: Path) -> None:
    folder = JobsFolder(tmp_path)
    folder.submit([JobSpec(0, "x", ("true",), "/", DeviceRequest(), AT)])
    taker: Any = Vain()
    one = Dispatcher(folder, SETTINGS, lambda kind: taker, print)
    one.step()
    one.close()
    [view] = Queue(folder).views([1])
    assert (view.state, view.error) == (JobState.FAILED, "no GPU here has more")


def test_jobs_are_not_walked_again_while_nothing_changes(tmp_path: Path) -> None:
    """With thousands of jobs that would take much of every 30 ms."""
    folder = JobsFolder(tmp_path)
    ended_job(folder)
    one = dispatcher(folder)
    walks = [python_calls(one.step)["AttemptRecorder.follow"] for _ in range(5)]
    assert walks == [1, 0, 0, 0, 0]
    ended_job(folder)
    one._scanned = 0.0
    assert python_calls(one.step)["AttemptRecorder.follow"] == 1
    one.close()


def test_what_failed_halfway_is_followed_again(tmp_path: Path) -> None:
    ended_job(JobsFolder(tmp_path))
    one = dispatcher(Failing(tmp_path, "attempt"))
    with pytest.raises(OSError, match="Stale file handle"):
        one.step()
    one.step()
    assert {found.state.is_settled for found in one._known.values()} == {True}
    one.close()


def test_a_job_that_a_full_disk_kept_from_starting_is_tried_as_soon_as_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [1000]
    monkeypatch.setattr(dispatching, "free_bytes", lambda folder: left[0])
    one = dispatcher(JobsFolder(tmp_path))
    one._back_off(1, "it could not be started: No space left on device")
    one._back_off(2, "it could not be started: its supervisor died")
    assert [one._is_backing_off(number) for number in (1, 2)] == [True, True]
    left[0] = 1_000_000
    assert [one._is_backing_off(number) for number in (1, 2)] == [False, True]
