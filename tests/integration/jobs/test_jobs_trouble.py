"""Jobs on a full disk, while the clock jumps, and on a home that two machines share."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from andon.errors import Unavailable
from andon.host.processes.kin import started_ticks
from andon.jobs.acts import signal_group
from andon.jobs.folder import JobsFolder
from andon.jobs.queue import Queue, submit, wake
from andon.jobs.scan import group_lives
from andon.jobs.submitting import local_spec
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from tests.conftest import need
from tests.integration.conftest import andon
from tests.integration.queueing import (
    cleaned,
    kill_dispatcher,
    settle,
    stop_all,
    until_settled,
)
from tests.support.disks import disk, fill
from tests.support.waiting import wait_for
from tests.support.wall_clock import WallClock

__all__ = ["disk"]
LONG, DAY = 50.0, 86_400
pytestmark = pytest.mark.timeout(150)
BOOT = "/proc/sys/kernel/random/boot_id"
IDS = ("1111111111111111aaaaaaaaaaaaaaaa", "2222222222222222bbbbbbbbbbbbbbbb")
COVERED = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


def state_of(folder: JobsFolder, number: int) -> JobState:
    return Queue(folder).statuses[number].state


def is_running(folder: JobsFolder, number: int) -> bool:
    return state_of(folder, number) is JobState.RUNNING


def where_a_file_differs(
    own: Path, covered: str, *words: str
) -> "subprocess.CompletedProcess[str]":
    """A command of andon, and all that it starts, where another file covers one of this machine."""
    on = ("unshare", "--mount", "sh", "-c", COVERED, "sh", str(own), covered)
    command = [*on, sys.executable, "-m", "andon.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def test_on_a_full_disk_nothing_is_lost(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At submit: refused, with nothing left behind. At claim: it waits and says why. At the end:
    the exit code is there all the same."""
    flag, filler = tmp_path / "flag", disk / "filler"
    with cleaned(settle(monkeypatch, disk)) as folder:
        monkeypatch.setenv("ANDON_LEASE_DIR", str(tmp_path / "book"))
        command = ("sh", "-c", f"while ! test -e {flag}; do sleep 0.05; done; exit 9")
        spec = local_spec(command, DeviceRequest(), simulate=1, git=False)
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


def test_a_job_that_fills_the_disk_can_be_cancelled(
    disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cleaned(settle(monkeypatch, disk)) as folder:
        monkeypatch.setenv("ANDON_LEASE_DIR", str(tmp_path / "book"))
        submit([local_spec(("sleep", "600"), DeviceRequest(), simulate=1, git=False)])
        wait_for(lambda: state_of(folder, 1) is JobState.RUNNING, LONG)
        fill(disk / "filler")
        cancelled = andon("cancel", "1")
        state = state_of(folder, 1)
        (disk / "filler").unlink()
        assert (cancelled.code, state) == (0, JobState.CANCELLED)


def test_each_job_takes_its_lease_from_the_book_that_its_submission_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dispatcher was started by the first of them, with another book, or with none."""
    with cleaned(settle(monkeypatch, tmp_path)) as folder:
        for number, name in enumerate(("first", "second"), 1):
            monkeypatch.setenv("ANDON_LEASE_DIR", str(tmp_path / name))
            submit([local_spec(("sleep", "600"), DeviceRequest(), simulate=1, git=False)])
            wake(folder)
            wait_for(partial(is_running, folder, number), LONG)
        leases = [
            list((tmp_path / name / "leases").glob("*.lease")) for name in ("first", "second")
        ]
        assert list(map(len, leases)) == [1, 1]


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
        states = [found.state for found in until_settled(folder).statuses.values()]
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
            words = ("submit", "--simulate", "2", "--array", f"1-{count}", "--wait", "--", "true")
            done = where_a_file_differs(tmp_path / name, "/etc/machine-id", *words)
            assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
            folders.append(JobsFolder(tmp_path / "state" / "andon" / "nodes" / name[:12] / "jobs"))
        assert [len(Queue(folder).jobs) for folder in folders] == [1, 2]
    finally:
        for folder in folders:
            stop_all(folder)


def test_after_a_restart_of_the_machine_queued_jobs_are_queued_and_running_ones_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The boot id is another one. A process of the first job lives on, as one that happens to have
    the same pid and start after a restart."""
    need("unshare", "mount")
    if os.geteuid() != 0:
        pytest.skip("only root can cover the boot id")
    boot = tmp_path / "boot"
    boot.write_text("00000000-0000-4000-8000-00000000b007\n")
    once = f"echo on; test -e {tmp_path}/once && exit 0; touch {tmp_path}/once; exec sleep 600"
    with cleaned(settle(monkeypatch, tmp_path)) as folder:
        commands = {"echo on; exec sleep 600": False, once: True, "true": False}
        submit(
            local_spec(("sh", "-c", text), DeviceRequest(), simulate=2, git=False, retry_lost=again)
            for text, again in commands.items()
        )
        outputs = [folder.output(number, 1) for number in (1, 2)]
        wait_for(lambda: all(one.exists() and one.read_text() for one in outputs), LONG)
        wait_for(lambda: kill_dispatcher(folder), LONG)
        claims = [Queue(folder).jobs[number].attempts[0].claim for number in (1, 2)]
        for pid in (claims[0].pid, claims[1].pid, claims[1].group):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: all(started_ticks(c.pid) != c.started_ticks for c in claims), LONG)
        folder.pause()  # so that it is seen how they stand before one starts
        shown = where_a_file_differs(boot, BOOT, "jobs", "--all", "--json")
        states = [one["state"] for one in json.loads(shown.stdout)["jobs"]]
        assert states == ["lost", "waiting", "waiting"], shown
        assert state_of(folder, 1) is JobState.RUNNING, "without a restart its command would count"
        done = where_a_file_differs(boot, BOOT, "jobs", "start")
        assert done.returncode == 0, done
        waited = where_a_file_differs(boot, BOOT, "jobs", "wait", "2", "3")
        assert waited.returncode == 0, waited
        assert [len(Queue(folder).jobs[number].attempts) for number in (1, 2, 3)] == [1, 2, 1]
        assert signal_group(claims[0], signal.SIGKILL), "it lives on, and nobody else ends it"


def test_a_dispatcher_leaves_after_the_last_job_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from andon.jobs.starting import is_dispatched

    with cleaned(settle(monkeypatch, tmp_path, idle="0s")) as folder:
        for _ in range(2):
            submit([local_spec(("true",), DeviceRequest(), simulate=1, git=False)])
            until_settled(folder)
            wait_for(lambda: not is_dispatched(folder), LONG)
        wake(folder)
        wait_for(lambda: not is_dispatched(folder), LONG)


def test_an_output_faster_than_it_is_shortened_costs_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where someone has deleted the job's folder: the file is shortened all the same."""
    monkeypatch.setenv("ANDON_JOBS_LOG_MEGABYTES", "1")
    done = tmp_path / "done"
    with cleaned(settle(monkeypatch, tmp_path)) as folder:
        command = ("sh", "-c", f"head -c 600000000 /dev/zero; touch {done}; sleep 600")
        submit([local_spec(command, DeviceRequest(), simulate=1, git=False)])
        wait_for(lambda: state_of(folder, 1) is JobState.RUNNING, LONG)
        last = Queue(folder).jobs[1].last
        assert last is not None
        opened = Path(f"/proc/{last.claim.pid}/fd").iterdir()
        output = next(one for one in opened if one.readlink().name == "output.log")
        shutil.rmtree(folder.job(1))
        wait_for(done.exists, LONG)
        wait_for(lambda: output.stat().st_size < 1_000_000, LONG)
        peak = Path(f"/proc/{last.claim.pid}/status").read_text().partition("VmHWM:")[2].split()[0]
        assert int(peak) < 60_000, "kB"
        assert signal_group(last.claim, signal.SIGKILL)
        wait_for(lambda: not output.exists(), LONG)  # it has ended without anywhere to write


def test_a_job_that_is_deleted_while_it_is_waited_for_has_not_succeeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from andon.jobs.starting import is_dispatched

    with cleaned(settle(monkeypatch, tmp_path)) as folder:
        later = time.time() + 9999
        folder.submit(
            [local_spec(("true",), DeviceRequest(), simulate=1, git=False, begin_at=later)]
        )
        waiting = subprocess.Popen(
            [sys.executable, "-m", "andon", "jobs", "wait", "1"], stderr=subprocess.PIPE, text=True
        )
        wait_for(lambda: is_dispatched(folder), LONG)  # by the one that waits
        shutil.rmtree(folder.job(1))
        _, said = waiting.communicate(timeout=LONG)
    assert (waiting.returncode, "job 1 was deleted meanwhile" in said) == (5, True), said


def test_jobs_that_cannot_be_started_keep_no_other_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their descriptions can be listed; only the environment, which is read last, is damaged."""
    with cleaned(settle(monkeypatch, tmp_path)) as folder:
        spec = local_spec(("true",), DeviceRequest(), simulate=1, git=False)
        folder.pause()
        made = folder.submit([spec] * 16)
        for one in made[:-1]:
            path = folder.job(one.number) / "job.json"
            said = json.loads(path.read_text())
            path.write_text(json.dumps({**said, "environment": {"A": 5}}))
        folder.unpause()
        wake(folder)
        wait_for(lambda: state_of(folder, 16) is JobState.SUCCEEDED, LONG)
        assert "could not be started" in (Queue(folder).views([1])[0].reason or "")


def commands_run(folder: JobsFolder) -> bool:
    """Whether the command of the first job has been started: a moment later than the job runs."""
    last = Queue(folder).jobs[1].last
    return last is not None and group_lives(last.claim)


def test_a_job_whose_supervisor_has_not_ended_is_not_called_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a container engine that does not answer removes its container."""
    with cleaned(settle(monkeypatch, tmp_path)) as folder:
        command = ("sleep", "600")
        submit([local_spec(command, DeviceRequest(), simulate=1, git=False, grace_seconds=0.0)])
        wait_for(lambda: commands_run(folder), LONG)
        last = Queue(folder).jobs[1].last
        assert last is not None
        os.kill(last.claim.pid, signal.SIGSTOP)
        try:
            assert signal_group(last.claim, signal.SIGKILL)
            said = andon("cancel", "1")
        finally:
            os.kill(last.claim.pid, signal.SIGCONT)
        assert (said.code, "job 1 has not ended yet" in said.err) == (1, True), said.err
        wait_for(lambda: state_of(folder, 1).is_settled, LONG)
