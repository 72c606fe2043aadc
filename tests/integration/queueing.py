"""What the tests of the queue share: a queue of their own, and what lies in it."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from andon.host.processes.kin import group_members, started_ticks
from andon.jobs.folder import LOCK, LOG, JobsFolder, open_jobs_folder
from andon.jobs.queue import Queue, wake
from andon.jobs.starting import is_dispatched
from andon.model.job.facts import JobState
from tests.support.homes import own_folders

PATIENCE_SECONDS = 45.0


def settle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, idle: str = "1s") -> JobsFolder:
    """A state folder and a lease book of this test's own, with idle simulated devices."""
    for name, value in own_folders(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ANDON_JOBS_IDLE", idle)
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")
    return open_jobs_folder()


@contextmanager
def cleaned(folder: JobsFolder) -> Iterator[JobsFolder]:
    """Nothing that this test started is left: the dispatcher leaves, commands are killed."""
    try:
        yield folder
    finally:
        stop_all(folder)


def dispatcher_pid(folder: JobsFolder) -> int | None:
    """The dispatcher of this folder, if it runs: the kernel says who it is."""
    with suppress(OSError, ValueError, KeyError):
        said = json.loads((folder.path / LOCK).read_bytes())
        if started_ticks(said["pid"]) == said["start"] and is_dispatched(folder):
            return int(said["pid"])
    return None


def kill_dispatcher(folder: JobsFolder) -> bool:
    pid = dispatcher_pid(folder)
    if pid is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def stop_all(folder: JobsFolder) -> None:
    folder.pause()
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        kill_dispatcher(folder)
        left = [f.last for f in Queue(folder).jobs.values() if f.last and f.last.end is None]
        living = [one for one in left if one.locked or one.alive]
        for one in living:
            if started_ticks(one.claim.pid) == one.claim.started_ticks:
                with suppress(ProcessLookupError):
                    os.kill(one.claim.pid, signal.SIGKILL)
            for member in group_members({one.claim.group}).get(one.claim.group, ()):
                if member.started_ticks >= one.claim.group_ticks:
                    with suppress(ProcessLookupError):
                        os.kill(member.pid, signal.SIGKILL)
        if not living and not is_dispatched(folder):
            return
        time.sleep(0.05)


def states(folder: JobsFolder) -> dict[int, JobState]:
    return {number: found.state for number, found in Queue(folder).statuses.items()}


def until_settled(folder: JobsFolder, seconds: float = PATIENCE_SECONDS) -> Queue:
    """The queue when every job has ended, and what came of each is written."""
    end = time.monotonic() + seconds
    queue = Queue(folder)
    while True:
        queue.refresh()
        lasts = [facts.last for facts in queue.jobs.values()]
        written = all(last is None or last.verdict is not None for last in lasts)
        if written and all(found.state.is_settled for found in queue.statuses.values()):
            return queue
        if time.monotonic() >= end:
            left = [f"{n}: {s}" for n, s in queue.statuses.items() if not s.state.is_settled]
            said = (folder.path / LOG).read_text()[-2000:]
            pytest.fail(f"not settled: {left}; the dispatcher said: {said}")
        if not is_dispatched(folder):  # one that runs would read everything again
            wake(folder)
        time.sleep(0.05)
