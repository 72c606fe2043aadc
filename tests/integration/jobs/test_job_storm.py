"""Dispatchers, servers and supervisors killed at random while jobs are submitted and run: none
starts twice, none is forgotten, each output is there, and each exit code but those of the killed
supervisors."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from andon.host.processes.kin import started_ticks
from andon.jobs.folder import JobsFolder
from andon.jobs.queue import Queue, submit, wake
from andon.jobs.rules.states import is_running
from andon.jobs.starting import is_dispatched
from andon.jobs.submitting import local_spec
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from tests.integration.queueing import (
    cleaned,
    dispatcher_pid,
    kill_dispatcher,
    settle,
    until_settled,
)
from tests.support.waiting import wait_for

ROUNDS = 50 if os.environ.get("ANDON_STORM") == "full" else 8  # of each a dispatcher and a server
JOBS_A_ROUND, ROUNDS_A_SUPERVISOR = 4, 5
SUPERVISORS = max(2, ROUNDS // ROUNDS_A_SUPERVISOR)
DEVICES = 8
SEED = int(os.environ.get("ANDON_FUZZ_SEED", str(time.time_ns())))
LONG = 90.0


@pytest.mark.timeout(900 if ROUNDS == 50 else 200)
def test_a_storm_of_kills_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = tmp_path / "starts"
    starts.mkdir()
    with cleaned(settle(monkeypatch, tmp_path)) as folder:
        storm = Storm(folder, starts)
        try:
            killed = storm.rages()
        finally:
            storm.kill_server()
        queue = until_settled(folder, LONG)
        assert len(queue.jobs) == storm.submitted
        assert len(killed) == SUPERVISORS
        wrong = [
            words for number in queue.jobs for words in mistakes(queue, number, starts, killed)
        ]
        assert not wrong, f"seed {SEED}: " + "; ".join(wrong)


def mistakes(queue: Queue, number: int, starts: Path, killed: set[int]) -> list[str]:
    """What is wrong with one job."""
    facts, state = queue.jobs[number], queue.statuses[number].state
    begun, end = starts / str(number), facts.attempts[0].end
    count = len(begun.read_text().splitlines()) if begun.exists() else 0
    output = queue.folder.output(number, 1).read_text()
    out = []
    if len(facts.attempts) != 1:
        out.append(f"{number}: {len(facts.attempts)} attempts")
    if number in killed and state is JobState.LOST:
        if count > 1:
            out.append(f"{number}: lost, started {count} times")
    elif count != 1 or output != f"out of {number}\n":
        out.append(f"{number}: started {count} times, output {output!r}")
    elif end is None or end.exit_code != number % 5:
        out.append(f"{number}: {state}, {end}")
    return out


class Storm:
    """Jobs come while it rages, so that there is always one to run."""

    def __init__(self, folder: JobsFolder, starts: Path) -> None:
        self._folder, self._chance = folder, random.Random(SEED)
        self._starts, self.submitted = starts, 0
        self._queue, self._killed = Queue(folder), set[int]()
        self._server: subprocess.Popen[bytes] | None = None
        text = (
            f'echo begun >> {starts}/$ANDON_JOB; echo "out of $ANDON_JOB"; '
            "sleep 0.$((ANDON_JOB % 7)); exit $((ANDON_JOB % 5))"
        )
        self._spec = local_spec(("sh", "-c", text), DeviceRequest(), simulate=DEVICES, git=False)

    def rages(self) -> set[int]:
        """The jobs whose supervisors were killed."""
        supervised = set(self._chance.sample(range(ROUNDS), SUPERVISORS))
        for turn in range(ROUNDS):
            self._server = self._server or self._serve()
            self._submit(JOBS_A_ROUND)
            wait_for(self._is_dispatched, LONG)
            if turn in supervised:
                wait_for(self._kills_supervisor, LONG)
            time.sleep(self._chance.uniform(0.0, 0.6))
            assert self._server.poll() is None, f"seed {SEED}: the server ended by itself"
            victims = [self._kill_dispatcher, self.kill_server]
            self._chance.shuffle(victims)
            for kill in victims:
                kill()
        return self._killed

    def _submit(self, count: int) -> None:
        submit([self._spec] * count)
        self.submitted += count

    def _is_dispatched(self) -> bool:
        """A killed one has the lock until it is gone: the next must be started once more."""
        if not is_dispatched(self._folder):
            wake(self._folder)
        return dispatcher_pid(self._folder) is not None

    def _kill_dispatcher(self) -> None:
        def kills() -> bool:
            return self._is_dispatched() and kill_dispatcher(self._folder)

        wait_for(kills, LONG)

    def _kills_supervisor(self) -> bool:
        self._is_dispatched()
        self._queue.refresh()
        lasts = {number: facts.last for number, facts in self._queue.jobs.items()}
        running = {n: last.claim for n, last in lasts.items() if last and is_running(last)}
        for number, claim in running.items():
            if number not in self._killed and started_ticks(claim.pid) == claim.started_ticks:
                os.kill(claim.pid, signal.SIGKILL)
                self._killed.add(number)
                return True
        begun = {int(path.name) for path in self._starts.iterdir()}
        if len(begun | self._killed) == self.submitted:
            self._submit(1)  # on a slow machine all may have ended before they were looked at
        time.sleep(0.02)
        return False

    def _serve(self) -> "subprocess.Popen[bytes]":
        """It is killed while it starts, too."""
        words = ("serve", "--simulate", "1", "--port", "0", "--quiet", "--no-history")
        return subprocess.Popen(
            [sys.executable, "-m", "andon.cli", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill_server(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        self._server = None
