"""Dispatchers and supervisors killed at random while jobs run: none starts twice, none is lost
that was not killed, each output and each exit code is there."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from andon.app.jobs import Queue, submit, wake
from andon.core.jobs.states import is_running
from andon.engine.jobs.submitting import here_spec
from andon.host.kin import started_ticks
from andon.model.job import JobState
from andon.model.work import DeviceRequest
from tests.integration.queueing import cleaned, dispatcher_pid, kill_dispatcher, settle

JOBS, DISPATCHERS, SUPERVISORS = 200, 50, 10
DEVICES = 8
SEED = int(os.environ.get("ANDON_FUZZ_SEED", str(time.time_ns())))
LIMIT_SECONDS = 240.0
KILLING_SECONDS = 90.0  # on a busy machine fewer are killed, and the jobs still end in time
FEWEST = 10


@pytest.mark.timeout(300)
def test_a_storm_of_kills_loses_and_repeats_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(SEED)
    starts = tmp_path / "starts"
    starts.mkdir()
    with cleaned(settle(monkeypatch, tmp_path)) as folder:
        command = (
            f'echo begun >> {starts}/$ANDON_JOB; echo "out of $ANDON_JOB"; '
            "sleep 0.$((ANDON_JOB % 7)); exit $((ANDON_JOB % 5))"
        )
        submit(
            here_spec(("sh", "-c", command), DeviceRequest(), simulate=DEVICES, git=False)
            for _ in range(JOBS)
        )
        killed = storm(folder_queue := Queue(folder), chance)
        queue = folder_queue
        assert len(queue.jobs) == JOBS
        wrong: list[str] = []
        for number, facts in queue.jobs.items():
            begun = starts / str(number)
            count = len(begun.read_text().splitlines()) if begun.exists() else 0
            state = queue.standings[number].state
            output = folder.output(number, 1).read_text()
            end = facts.attempts[0].end
            if len(facts.attempts) != 1:
                wrong.append(f"{number}: {len(facts.attempts)} attempts")
            if number in killed:
                if count > 1 or state not in (JobState.LOST, JobState.SUCCEEDED, JobState.FAILED):
                    wrong.append(f"{number}: {state}, started {count} times, supervisor killed")
                continue
            if count != 1 or output != f"out of {number}\n":
                wrong.append(f"{number}: started {count} times, output {output!r}")
            if end is None or end.exit_code != number % 5:
                wrong.append(f"{number}: {state}, {end}")
        assert not wrong, f"seed {SEED}: " + "; ".join(wrong)
        lost = [n for n, found in queue.standings.items() if found.state is JobState.LOST]
        assert set(lost) <= killed, f"seed {SEED}"
        assert killed, f"seed {SEED}: no supervisor was killed"


def storm(queue: Queue, chance: random.Random) -> set[int]:
    """Kill until all kills are spent and all jobs have ended; the jobs whose supervisor died."""
    folder, killed, dispatchers = queue.folder, set[int](), 0
    began = time.monotonic()
    end, due = began + LIMIT_SECONDS, 0.0
    while True:
        assert time.monotonic() < end, (
            f"seed {SEED}: {dispatchers} killed, {len(killed)} supervisors"
        )
        queue.refresh()
        running = [f for f in queue.jobs.values() if f.last is not None and is_running(f.last)]
        if len(killed) < SUPERVISORS and running and chance.random() < 0.3:
            last = (victim := chance.choice(running)).last
            if last is not None and started_ticks(last.claim.pid) == last.claim.started_ticks:
                os.kill(last.claim.pid, signal.SIGKILL)
                killed.add(victim.spec.number)
        may_kill = dispatchers < DISPATCHERS and time.monotonic() - began < KILLING_SECONDS
        if may_kill and dispatcher_pid(folder) is not None:
            if not due:
                due = time.monotonic() + chance.uniform(0.0, 0.6)
            elif time.monotonic() >= due and kill_dispatcher(folder):
                dispatchers, due = dispatchers + 1, 0.0
        settled = all(found.state.is_settled for found in queue.standings.values())
        judged = all(f.last is None or f.last.verdict is not None for f in queue.jobs.values())
        if settled and judged:
            assert dispatchers >= FEWEST, f"seed {SEED}: only {dispatchers} were killed"
            return killed
        wake(folder)
        time.sleep(0.02)
