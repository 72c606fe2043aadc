"""Servers, dispatchers, supervisors, readers, maps and runs killed at random, all at once: nothing
that was accepted is lost, nothing runs twice, no device is lent twice, and no one sees a traceback.

`ANDON_STORM=full` kills 300; a failure prints its seed (`ANDON_FUZZ_SEED`).
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from andon.host.processes.kin import started_ticks
from andon.jobs.folder import LOG, JobsFolder
from andon.jobs.queue import Queue, submit, wake
from andon.jobs.rules.states import is_running
from andon.jobs.starting import is_dispatched
from andon.jobs.submitting import local_spec
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from tests.conftest import need
from tests.integration.queueing import (
    cleaned,
    dispatcher_pid,
    kill_dispatcher,
    settle,
    until_settled,
)
from tests.support.waiting import wait_for

FULL = os.environ.get("ANDON_STORM") == "full"
KILLS = 300 if FULL else 6  # one of each kind
JOBS_AT_ONCE, RUNS_AT_ONCE, ITEMS = 4, 2, 12
DEVICES = 8
SEED = int(os.environ.get("ANDON_FUZZ_SEED", str(time.time_ns())))
LONG = 120.0

# Held while the command runs: two on one device would meet here.
WORK = """
exec 9>>"$STORM/device-$CUDA_VISIBLE_DEVICES"
flock -n 9 || echo "$1 on $CUDA_VISIBLE_DEVICES" >> "$STORM/twice"
echo begun >> "$STORM/begun-$1"
sleep $3.$(($2 % 7))
echo ended >> "$STORM/ended-$1"
exit $(($2 % 5))
"""


@pytest.mark.timeout(3600 if FULL else 300)
def test_whoever_is_killed_nothing_is_lost_and_nothing_happens_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("flock")
    work = tmp_path / "work.sh"
    work.write_text(WORK)
    monkeypatch.setenv("STORM", str(tmp_path))
    with cleaned(settle(monkeypatch, tmp_path)) as folder, storm(folder, tmp_path) as raging:
        raging.rage()
        raging.calm()
        wrong = raging.mistakes()
    counts = ", ".join(f"{count} {name}" for name, count in sorted(raging.killed.items()))
    assert not wrong, f"seed {SEED}, killed {counts}: " + "; ".join(wrong)
    assert sum(raging.killed.values()) == KILLS
    print(f"seed {SEED}: killed {counts}; {raging.summary()}")


@contextmanager
def storm(folder: JobsFolder, place: Path) -> Iterator["Storm"]:
    made = Storm(folder, place)
    try:
        yield made
    finally:
        made.end()


@dataclass
class Started:
    """A command of the storm's own."""

    name: str
    process: subprocess.Popen[bytes]
    killed: bool = False


class Storm:
    """Keeps work going, kills one of those who do it, and counts."""

    def __init__(self, folder: JobsFolder, place: Path) -> None:
        self._folder, self._place, self._chance = folder, place, random.Random(SEED)
        self._queue = Queue(folder)
        self._server: subprocess.Popen[bytes] | None = None
        self._runs: list[Started] = []
        self._maps: list[Started] = []
        self._jobs: list[int] = []
        self._lost: set[int] = set()  # their supervisors were killed
        self.killed: Counter[str] = Counter()
        self._errors = (place / "errors").open("wb")
        items = place / "items"
        items.write_text("".join(f"{n}\n" for n in range(ITEMS)))

    # What goes on.

    def rage(self) -> None:
        kills: dict[str, Callable[[], bool]] = {
            "server": self._kill_server, "dispatcher": self._kill_dispatcher,
            "supervisor": self._kill_supervisor, "reader": self._kill_reader,
            "map": lambda: self._kill_one(self._maps), "run": lambda: self._kill_one(self._runs),
        }  # fmt: skip
        for turn in range(KILLS):
            # Each kind comes early, so that a short storm has all of them.
            name = list(kills)[turn] if turn < len(kills) else self._chance.choice(list(kills))
            self._strike(name, kills[name])
            time.sleep(self._chance.uniform(0.0, 0.3))

    def _strike(self, name: str, kill: Callable[[], bool]) -> None:
        end = time.monotonic() + LONG
        self._goes_on()
        while not kill():
            assert time.monotonic() < end, f"seed {SEED}: there was no {name} to kill"
            self._goes_on()
        self.killed[name] += 1

    def _goes_on(self) -> None:
        """There is a server, a dispatcher, and work of every kind."""
        if self._server is None:
            self._server = self._started("serve", "--port", "0", "--quiet", "--no-history")
        self._queue.refresh()
        statuses = self._queue.statuses.values()
        if sum(not found.state.is_settled for found in statuses) < JOBS_AT_ONCE:
            self._submit()
        if not is_dispatched(self._folder):
            wake(self._folder)
        if len([one for one in self._runs if one.process.poll() is None]) < RUNS_AT_ONCE:
            self._run()
        if all(one.process.poll() is not None for one in self._maps):
            self._map(f"map{len(self._maps)}")

    def calm(self) -> None:
        """All that was begun comes to its end, and what was cut off is taken up again."""
        until_settled(self._folder, LONG)
        for one in [*self._runs, *self._maps]:
            one.process.wait(LONG)
        for one in [one for one in self._maps if one.killed]:
            # None, or an empty one, if it had just begun.
            records = (self._place / one.name).glob("*.jsonl")
            written = [str(record) for record in records if record.stat().st_size]
            more = [word for record in written for word in ("--resume", record)]
            self._map(one.name, *more).process.wait(LONG)
        wait_for(self._is_free, LONG)

    def end(self) -> None:
        for process in [self._server, *(one.process for one in [*self._runs, *self._maps])]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self._errors.close()

    # What must be.

    def mistakes(self) -> list[str]:
        wrong = [f"two at once: {line}" for line in self._lines("twice")]
        queue = Queue(self._folder)
        if sorted(queue.jobs) != sorted(self._jobs):
            wrong.append(f"submitted {len(self._jobs)} jobs, known {len(queue.jobs)}")
        for number in queue.jobs:
            state = queue.statuses[number].state
            begun = len(self._lines(f"begun-job{number}"))
            may_be_lost = number in self._lost and state is JobState.LOST
            if begun > 1 or (begun == 0 and not may_be_lost):
                wrong.append(f"job {number} ({state}) began {begun} times")
        for one in self._runs:
            begun = len(self._lines(f"begun-{one.name}"))
            if begun > 1 or (begun != 1 and not one.killed):
                wrong.append(f"{one.name} began {begun} times, exit {one.process.returncode}")
        cut = Counter(one.name for one in self._maps if one.killed)
        for name in {one.name for one in self._maps}:
            for item in range(ITEMS):
                label = f"{name}-{item}"
                begun, ended = len(self._lines(f"begun-{label}")), self._lines(f"ended-{label}")
                if not ended or begun > 1 + cut[name]:
                    wrong.append(f"{label} began {begun} times, ended {len(ended)} times")
        self._errors.flush()
        said = (self._place / "errors").read_text(errors="replace")
        said += (self._folder.path / LOG).read_text(errors="replace")
        if "Traceback" in said:
            wrong.append("a traceback: " + said[said.index("Traceback") :][:1500])
        return wrong

    def summary(self) -> str:
        return f"{len(self._jobs)} jobs, {len(self._runs)} runs, {len(self._maps)} maps"

    def _is_free(self) -> bool:
        """No lease is left once all work is done."""
        found = subprocess.run(
            [sys.executable, "-m", "andon.cli", "leases", "--json", "--simulate", str(DEVICES)],
            capture_output=True,
        )
        left = json.loads(found.stdout)["leases"]
        if left:
            time.sleep(0.2)
        return not left

    def _lines(self, name: str) -> list[str]:
        path = self._place / name
        return path.read_text().splitlines() if path.exists() else []

    # Work.

    def _submit(self) -> None:
        words = ("sh", str(self._place / "work.sh"))
        text = f'exec {" ".join(words)} "job$ANDON_JOB" "$ANDON_JOB" 1'
        spec = local_spec(("sh", "-c", text), DeviceRequest(), simulate=DEVICES, git=False)
        self._jobs += [made.number for made in submit([spec] * JOBS_AT_ONCE)]

    def _run(self) -> None:
        name = f"run{len(self._runs)}"
        work = ("sh", str(self._place / "work.sh"), name, str(self._chance.randrange(5)), "3")
        self._runs.append(Started(name, self._started("run", "--quiet", "--", *work)))

    def _map(self, name: str, *more: str) -> Started:
        record = ("--telemetry-dir", str(self._place / name), "--name", name)
        work = ("sh", str(self._place / "work.sh"), f"{name}-{{item}}", "5", "0")
        items = ("--items", str(self._place / "items"))
        process = self._started("map", "--quiet", *items, *record, *more, "--", *work)
        self._maps.append(Started(name, process))
        return self._maps[-1]

    def _started(self, command: str, *words: str) -> "subprocess.Popen[bytes]":
        devices = ("--simulate", str(DEVICES))
        return subprocess.Popen(
            [sys.executable, "-m", "andon.cli", command, *devices, *words],
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
        )

    # Death.

    def _kill_server(self) -> bool:
        assert self._server is not None
        assert self._server.poll() is None, f"seed {SEED}: the server ended by itself"
        self._server.kill()
        self._server.wait()
        self._server = None
        return True

    def _kill_dispatcher(self) -> bool:
        return dispatcher_pid(self._folder) is not None and kill_dispatcher(self._folder)

    def _kill_supervisor(self) -> bool:
        lasts = {number: facts.last for number, facts in self._queue.jobs.items()}
        for number, last in lasts.items():
            claim = last.claim if last and is_running(last) else None
            if claim is None or number in self._lost:
                continue
            if started_ticks(claim.pid) == claim.started_ticks:
                os.kill(claim.pid, signal.SIGKILL)
                self._lost.add(number)
                return True
        time.sleep(0.02)
        return False

    def _kill_reader(self) -> bool:
        """Of the server: the process below it that calls the driver."""
        assert self._server is not None
        for pid in _children(self._server.pid):
            with suppress(OSError):
                if b"andon.process\0reader" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
                    return True
        time.sleep(0.05)
        return False

    def _kill_one(self, all_of_them: list[Started]) -> bool:
        """One that has begun to work, or not yet."""
        for one in (one for one in all_of_them if one.process.poll() is None):
            is_at_work = any(self._place.glob(f"begun-{one.name}*"))
            if is_at_work or self._chance.random() < 0.05:
                one.process.kill()
                one.process.wait()
                one.killed = True
                return True
        time.sleep(0.02)
        return False


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found
