"""Jobs on a full disk, while the clock jumps, and on a home that two machines share."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from andon.app.jobs import Queue, submit, wake
from andon.engine.jobs.folder import JobsFolder
from andon.engine.jobs.submitting import here_spec
from andon.errors import Unavailable
from andon.model.job import JobState
from andon.model.work import DeviceRequest
from tests.conftest import need
from tests.integration.conftest import andon
from tests.integration.queueing import cleaned, settle, stop_all, until_settled
from tests.support.disks import disk, fill
from tests.support.waiting import wait_for
from tests.support.wall_clock import WallClock

__all__ = ["disk"]
LONG, DAY = 50.0, 86_400
pytestmark = pytest.mark.timeout(150)
IDS = ("1111111111111111aaaaaaaaaaaaaaaa", "2222222222222222bbbbbbbbbbbbbbbb")
ON_MACHINE = 'mount --bind "$1" /etc/machine-id && shift && exec "$@"'


def state_of(folder: JobsFolder, number: int) -> JobState:
    return Queue(folder).standings[number].state


def test_on_a_full_disk_nothing_is_lost(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At submit: refused, with nothing left behind. At claim: it waits and says why. At the end:
    the exit code is there all the same."""
    flag, filler = tmp_path / "flag", disk / "filler"
    with cleaned(settle(monkeypatch, disk)) as folder:
        monkeypatch.setenv("ANDON_LEASE_DIR", str(tmp_path / "book"))
        command = ("sh", "-c", f"while ! test -e {flag}; do sleep 0.05; done; exit 9")
        spec = here_spec(command, DeviceRequest(), simulate=1, git=False)
        submit([spec, spec])
        wait_for(lambda: state_of(folder, 1) is JobState.RUNNING, LONG)
        fill(filler)
        refused = andon("submit", "--simulate", "1", "--", "true")
        assert (refused.code, refused.out) == (Unavailable.exit_code, "")
        assert "No space left on device" in refused.err
        assert set(Queue(folder).jobs) == {1, 2}
        flag.touch()
        wait_for(lambda: Queue(folder).jobs[1].attempts[0].end is not None, LONG)
        end = Queue(folder).jobs[1].attempts[0].end
        assert end is not None
        assert end.exit_code == 9
        time.sleep(1.0)  # the dispatcher has tried the second: it could not be claimed
        assert state_of(folder, 2) is JobState.WAITING
        filler.unlink()
        queue = until_settled(folder, 60.0)
        assert [one.exit_code for one in queue.views()] == [9, 9]


def test_a_clock_that_jumps_a_day_ends_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = WallClock(tmp_path)
    with cleaned(settle(monkeypatch, tmp_path)) as folder:
        for name, value in clock.environment.items():
            monkeypatch.setenv(name, value)
        flag = tmp_path / "flag"
        wait_here = f"while ! test -e {flag}; do sleep 0.05; done"
        sub = ("submit", "--simulate", "1")
        assert andon(*sub, "--for", "1h", "--", "sh", "-c", wait_here).code == 0
        assert andon(*sub, "--timeout", "2h", "--", "true").code == 0
        wait_for(lambda: state_of(folder, 1) is JobState.RUNNING, LONG)
        for step in (DAY, -2 * DAY, DAY):
            clock.step(step)
            time.sleep(1.5)  # longer than the looks of supervisor and dispatcher are apart
            states = [state_of(folder, number) for number in (1, 2)]
            assert states == [JobState.RUNNING, JobState.WAITING], step
        flag.touch()
        states = [found.state for found in until_settled(folder).standings.values()]
        assert states == [JobState.SUCCEEDED, JobState.SUCCEEDED]
        end = Queue(folder).jobs[1].attempts[0].end
        assert end is not None
        assert 0 < end.seconds < 120
        for name in clock.environment:
            monkeypatch.delenv(name)


def test_two_machines_on_one_home_have_a_queue_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("unshare", "mount")
    if os.geteuid() != 0 or not Path("/etc/machine-id").exists():
        pytest.skip("only root can cover /etc/machine-id")
    settle(monkeypatch, tmp_path)
    folders = []
    try:
        for count, name in enumerate(IDS, start=1):
            (tmp_path / name).write_text(f"{name}\n")
            on = ("unshare", "--mount", "sh", "-c", ON_MACHINE, "sh", str(tmp_path / name))
            words = ("submit", "--simulate", "2", "--array", f"1-{count}", "--wait", "--", "true")
            done = subprocess.run(
                [*on, sys.executable, "-m", "andon.cli", *words],
                capture_output=True,
                text=True,
                timeout=100,
            )
            assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
            folders.append(JobsFolder(tmp_path / "state" / "andon" / "nodes" / name[:12] / "jobs"))
        assert [len(Queue(folder).jobs) for folder in folders] == [1, 2]
    finally:
        for folder in folders:
            stop_all(folder)


def test_a_dispatcher_leaves_after_the_last_job_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from andon.engine.jobs.starting import is_dispatched

    with cleaned(settle(monkeypatch, tmp_path, idle="0s")) as folder:
        for _ in range(2):
            submit([here_spec(("true",), DeviceRequest(), simulate=1, git=False)])
            until_settled(folder)
            wait_for(lambda: not is_dispatched(folder), LONG)
        wake(folder)
        wait_for(lambda: not is_dispatched(folder), LONG)
