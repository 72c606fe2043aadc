"""Jobs from their submission to their end, with real dispatchers, supervisors and commands."""

import ctypes
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from andon.host.processes.kin import started_ticks
from andon.jobs import acts
from andon.jobs.folder import JobsFolder
from andon.jobs.queue import Queue, submit, wake
from andon.jobs.starting import is_dispatched
from andon.jobs.submitting import local_spec
from andon.model.job.device_request import DeviceRequest, PlacementOrder
from andon.model.job.facts import AttemptClaim, JobState, JobView
from andon.model.job.spec import ArrayPlace, Checkpoint, NotifyWhen
from tests.integration.conftest import andon
from tests.integration.queueing import (
    cleaned,
    kill_dispatcher,
    settle,
    until_settled,
)
from tests.support.listening import listener
from tests.support.waiting import wait_for

LONG = 50.0
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
pytestmark = pytest.mark.timeout(150)


def shell(text: str, **more: Any) -> Any:
    request = more.pop("request", DeviceRequest())
    return local_spec(("sh", "-c", text), request, simulate=more.pop("simulate", 4), **more)


class Done:
    """Jobs that have ended, by their names."""

    def __init__(self, queue: Queue, place: Path, heard: list[str]) -> None:
        self.queue, self.place, self.heard = queue, place, heard
        self.views = {view.name: view for view in queue.views()}

    def output(self, name: str, attempt: int = 1) -> str:
        return self.queue.folder.output(self.views[name].number, attempt).read_text()

    def lines(self, name: str) -> list[dict[str, Any]]:
        record = self.views[name].record
        assert record is not None
        return [json.loads(line) for line in Path(record).read_text().splitlines()]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    place = tmp_path_factory.mktemp("jobs")
    with pytest.MonkeyPatch.context() as patch:
        folder = settle(patch, place)
        patch.setenv("ANDON_JOBS_LOG_MEGABYTES", "1")
        patch.setenv("ANDON_CONFIG", str(place / "config.toml"))
        with listener() as hook, cleaned(folder):
            url = f"json://127.0.0.1:{hook.server_address[1]}/"
            notifier = f'[[alerts.notifier]]\nname = "hook"\nkind = "apprise"\nurl = "{url}"\n'
            (place / "config.toml").write_text(notifier)
            yield Done(_played(folder, place), place, hook.heard)


def _played(folder: JobsFolder, place: Path) -> Queue:
    repository = place / "repository"
    repository.mkdir()
    _git(repository, "init", "-q")
    _commit(repository, "one")
    folder.pause()
    before = os.umask(0o027)
    try:
        variables = (
            "echo $CUDA_VISIBLE_DEVICES; echo $ANDON_JOB $ANDON_RUN; echo $MASTER_PORT; "
            "echo $PET_MASTER_PORT $PYTHONUNBUFFERED; umask; pwd; cat; exit 3"
        )
        submit([shell(variables, name="variables", folder=str(repository))])
    finally:
        os.umask(before)
    once = f"test -e {place}/once && exit 0; touch {place}/once; exit 4"
    stubborn = "trap 'echo asked' TERM; sleep 30 & wait; echo on; sleep 30 & wait"
    saves = "trap 'echo saved; exit 0' USR1; sleep 30 & wait"
    oom = "echo 'RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5 bytes'; exit 1"
    until_shorter = "while test $(stat -Lc %s /proc/$$/fd/1) -gt 1000000; do sleep 0.1; done"
    submit(
        [
            shell(once, name="again", retries=2, notify=NotifyWhen.END),
            shell(stubborn, name="late", for_seconds=0.5, grace_seconds=0.5),
            shell(saves, name="saves", for_seconds=60.0, checkpoint=Checkpoint("USR1", 59.5)),
            local_spec(
                ("/nonexistent/program",),
                DeviceRequest(),
                name="missing",
                simulate=4,
                notify=NotifyWhen.FAIL,
            ),
            local_spec(("echo 1; " * 1000,), DeviceRequest(), name="no program", simulate=4),
            local_spec(("echo", "\ud800"), DeviceRequest(), name="no text", simulate=4),
            shell(f"seq 250000; {until_shorter}; echo end", name="long output"),
            shell("seq 400000", name="quick output", notify=NotifyWhen.FAIL),
            shell(oom, name="oom", retry_oom=1),
            shell("true", name="too many", request=DeviceRequest(5, 5), timeout_seconds=0.5),
            shell("true", name="cancelled"),
        ]
    )
    first = max(Queue(folder).jobs)
    submit([shell("echo after", name="after", after=(first - 10,))])
    submit([shell("true", name="never", after=(first - 2,))])
    submit(
        shell("echo $ANDON_ARRAY_INDEX", name=f"array {index}", array=ArrayPlace(0, index, 3, 1))
        for index in range(3)
    )
    queue = Queue(folder)
    number = next(v.number for v in queue.views() if v.name == "cancelled")
    acts.cancel(folder, queue.jobs[number], queue.statuses[number])
    _commit(repository, "two")
    folder.unpause()
    wake(folder)
    return until_settled(folder)


def _git(folder: Path, *words: str) -> None:
    own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, env={**os.environ, **own})


def _commit(folder: Path, text: str) -> None:
    (folder / "file").write_text(text)
    _git(folder, "add", "file")
    _git(folder, "commit", "-q", "-m", text)


def test_a_webhook_is_told_of_those_whose_submitter_wanted_it(done: Done) -> None:
    """One that ended well after a retry, once, and one that failed; not one that ended well and
    would be told only of a failure."""
    again, missing = (done.views[name] for name in ("again", "missing"))
    wanted = (
        f"Job {again.label} (again) succeeded after ",
        f"Job {missing.label} (missing) failed",
        f"andon logs {missing.label}",
    )

    def said() -> str:
        return "\n".join(json.loads(body)["message"] for body in done.heard)

    wait_for(lambda: all(words in said() for words in wanted), LONG)
    assert all(said().count(words) == 1 for words in wanted[:2])
    assert "(quick output)" not in said()
    assert all("simulated" in json.loads(body)["title"].lower() for body in done.heard)
    types = {json.loads(body)["type"] for body in done.heard}
    assert "warning" in types  # one message of both, if they ended at once, is a warning too


def test_every_job_ends_as_it_should(done: Done) -> None:
    states = {name: (view.state, view.exit_code) for name, view in done.views.items()}
    assert states == {
        "variables": (JobState.FAILED, 3),
        "again": (JobState.SUCCEEDED, 0),
        "late": (JobState.TIMED_OUT, 137),
        "saves": (JobState.SUCCEEDED, 0),
        "missing": (JobState.FAILED, 127),
        "no program": (JobState.FAILED, 126),
        "no text": (JobState.FAILED, 126),
        "long output": (JobState.SUCCEEDED, 0),
        "quick output": (JobState.SUCCEEDED, 0),
        "oom": (JobState.FAILED, 1),
        "too many": (JobState.FAILED, None),
        "cancelled": (JobState.CANCELLED, None),
        "after": (JobState.SUCCEEDED, 0),
        "never": (JobState.CANCELLED, None),
        "array 0": (JobState.SUCCEEDED, 0),
        "array 1": (JobState.SUCCEEDED, 0),
        "array 2": (JobState.SUCCEEDED, 0),
    }


def test_a_job_runs_with_the_folder_the_umask_and_the_environment_of_its_submission(
    done: Done,
) -> None:
    view = done.views["variables"]
    devices, numbers, port, rest, umask, folder = done.output("variables").splitlines()
    assert devices == ",".join(view.device_uuids)
    assert numbers == f"{view.label} {view.run}"
    assert 1024 <= int(port) < 65536
    assert rest == f"{port} 1"
    assert (umask, folder) == ("0027", str(done.place / "repository"))


def test_a_job_is_a_run(done: Done, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(done.place / "state"))
    lines = done.lines("variables")
    begin, end = lines[0], lines[-1]
    view = done.views["variables"]
    assert (begin["kind"], begin["id"], begin["lease"]) == ("job", view.run, view.lease)
    assert begin["params"] == {"job": "1", "attempt": 1}
    assert [device["uuid"] for device in begin["devices"]] == list(view.device_uuids)
    assert (end["event"], end["state"], end["exit_code"]) == ("end", "failed", 3)
    assert any(line["event"] == "sample" for line in lines)
    [listed] = [r for r in andon("runs", "--json", "-n", "0").json()["runs"] if r["id"] == view.run]
    assert listed["state"] == "failed"


def test_the_run_says_that_the_commit_changed_since_the_submission(done: Done) -> None:
    events = [line for line in done.lines("variables") if line["event"] == "event"]
    assert [event["name"] for event in events] == ["git commit changed since the job was submitted"]
    assert events[0]["data"]["submitted"] != events[0]["data"]["started"]
    facts = next(line for line in done.lines("variables") if line["event"] == "facts")
    assert facts["git"]["commit"] == events[0]["data"]["started"]


def test_a_failed_job_is_retried(done: Done) -> None:
    assert done.views["again"].attempts == 2


def test_out_of_memory_on_the_only_kind_of_gpu_fails_at_once_and_says_why(done: Done) -> None:
    view = done.views["oom"]
    assert view.attempts == 1
    assert view.reason is not None
    assert view.reason.startswith("out of GPU memory: JAX tried to allocate 5 bytes more")
    assert "cannot retry with more memory: it had 79.1 GiB, and no GPU here has more" in view.reason


def test_the_end_comes_after_the_signals(done: Done) -> None:
    assert done.output("late") == "asked\non\n"
    assert done.output("saves") == "saved\n"


def test_a_command_that_does_not_exist_says_so(done: Done) -> None:
    assert done.output("missing") == "andon: /nonexistent/program: No such file or directory\n"
    assert done.views["missing"].reason == "/nonexistent/program: No such file or directory"
    assert done.output("no program").startswith("andon: echo 1; echo 1; ")
    assert (done.views["no program"].reason or "").endswith(": File name too long")
    assert done.views["no text"].reason == "echo: not text that a command can have"


def test_a_long_output_keeps_its_head_and_its_tail(done: Done) -> None:
    """The first waits until it has been shortened while it runs; the second has ended by then."""
    for name, last in (("long output", "250000\nend"), ("quick output", "400000")):
        text = done.output(name)
        assert text.startswith("1\n2\n3\n"), name
        assert text.endswith(f"{last}\n"), name
        head, words, tail = re.split(r"\n\[andon: (\d+) bytes left out here: jobs[^\n]*\]\n", text)
        whole = "".join(f"{number}\n" for number in range(1, int(last.split()[0]) + 1))
        assert whole.startswith(head), name
        assert len(head) == 250_000 <= len(tail), name
        assert 0 < int(words) <= len(whole) - 500_000, name


def test_a_job_that_waited_too_long_fails_with_the_reason(done: Done) -> None:
    reason = done.views["too many"].reason or ""
    assert reason.startswith("Insufficient GPUs after waiting ")
    assert "5 GPUs requested" in reason


def test_a_job_after_one_that_failed_never_starts(done: Done) -> None:
    assert "which it waits for, ended: failed" in (done.views["never"].reason or "")


def test_elements_of_an_array_know_their_index(done: Done) -> None:
    assert [done.output(f"array {index}") for index in range(3)] == ["0\n", "1\n", "2\n"]
    first = done.views["array 0"].number
    assert [done.views[f"array {i}"].label for i in range(3)] == [f"{first}_{i}" for i in range(3)]


def test_no_lease_and_no_ticket_is_left(done: Done) -> None:
    assert andon("leases", "--json", "--simulate", "4").json()["leases"] == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobsFolder]:
    with cleaned(settle(monkeypatch, tmp_path)) as found:
        yield found


def view_of(folder: JobsFolder, number: int) -> JobView:
    return Queue(folder).views([number])[0]


def until_running(folder: JobsFolder, number: int) -> JobView:
    wait_for(lambda: view_of(folder, number).state is JobState.RUNNING, LONG)
    return view_of(folder, number)


def until_begun(folder: JobsFolder, number: int) -> AttemptClaim:
    """Its command has written something: a claim alone may not have started it yet."""
    output = folder.output(number, 1)
    wait_for(lambda: output.exists() and output.read_text(), LONG)
    return Queue(folder).jobs[number].attempts[0].claim


def until_gone(claim: AttemptClaim) -> None:
    """The supervisor of an attempt has died."""
    wait_for(lambda: started_ticks(claim.pid) != claim.started_ticks, LONG)


def test_the_commands_of_a_person(folder: JobsFolder) -> None:
    """One dispatcher for all of them: starting one takes longer than each."""
    sub = ("submit", "--simulate", "2")
    assert andon(*sub, "--wait", "--", "sh", "-c", "echo hello; exit 7").code == 7
    saves = "trap 'echo saved; exit 0' USR1; echo on; sleep 600 & wait"
    sleeper = (*sub, "--name", "sleeper", "--checkpoint", "USR1", "--", "sh", "-c", saves)
    assert andon(*sleeper).out == "2\n"
    until_running(folder, 2)
    assert andon("logs", "1").out == "hello\n"
    listed = andon("jobs", "--json").json()
    assert listed["schema"] == "andon.jobs/1"
    assert [one["state"] for one in listed["jobs"]] == ["failed", "running"]
    assert "SIMULATED sleeper" in andon("jobs").out
    assert andon(sleeper[0], "--unique", *sleeper[1:]).out == "2\n"
    assert andon("jobs", "hold", "2").code == 6
    wait_for(lambda: folder.output(2, 1).read_text() == "on\n", LONG)
    assert "is sent SIGUSR1, has 1 min to save its work" in andon("jobs", "requeue", "2").err
    wait_for(lambda: view_of(folder, 2).attempts == 2, LONG)
    until_running(folder, 2)
    assert folder.output(2, 1).read_text() == "on\nsaved\n"
    first, second = Queue(folder).jobs[2].attempts
    assert first.claim.devices != second.claim.devices  # it has left
    claim = Queue(folder).jobs[2].attempts[-1].claim
    cancelled = andon("cancel", "@")
    assert (cancelled.code, "job 2 cancelled" in cancelled.err) == (0, True)
    assert started_ticks(claim.group) != claim.group_ticks
    assert view_of(folder, 2).state is JobState.CANCELLED
    assert "job 2" in andon("jobs", "show", "2").out
    assert andon("jobs", "pause").code == 0
    assert andon(*sub, "--", "true").out == "3\n"
    assert andon("jobs", "hold", "3").code == 0
    assert view_of(folder, 3).state is JobState.HELD
    assert andon("jobs", "resume", "3").code == 0
    assert "andon jobs start" in (view_of(folder, 3).reason or "")
    assert andon("jobs", "start").code == 0
    assert andon("jobs", "wait", "3").code == 0
    assert andon("jobs", "retry", "3").code == 0
    assert andon("jobs", "wait", "3").code == 0
    assert andon("jobs", "rm", "3").code == 0
    assert andon("logs", "3").code == 5
    for words, code in (
        (("--after", "train", "--", "true"), 2),
        (("--after", "77", "--", "true"), 5),
        (("--gpus", "0", "--", "true"), 2),
        (("--array", "3-1", "--", "true"), 2),
        (("--checkpoint", "KILL", "--for", "1h", "--", "true"), 2),
        (("--begin", "soon", "--", "true"), 2),
        ((), 2),
    ):
        bad = andon(*sub, *words)
        assert (bad.code, bad.out) == (code, ""), words
        assert "Traceback" not in bad.err
    dry = andon(*sub, "--dry-run", "--array", "0-9", "--", "python", "train.py", "--token", "abc")
    assert "would queue 10 jobs: train.py" in dry.out
    assert "abc" not in dry.out
    assert len(Queue(folder).jobs) == 2
    array = (*sub, "--wait", "--array", "0-1", "--", "sh", "-c", "echo $ANDON_ARRAY_INDEX")
    number = andon(*array).out.split()[0].partition("_")[0]
    titled = "".join(f"==> job {number}_{index} <==\n{index}\n" for index in range(2))
    assert andon("logs", number).out == titled, "of an array all of it"


def test_a_job_that_can_never_start_here_does_not_block_the_other_kind(folder: JobsFolder) -> None:
    made = andon("submit", "--", "true")
    assert made.out == "1\n"
    assert "andon submit --simulate 4" in made.err
    assert andon("submit", "--simulate", "1", "--wait", "--", "true").code == 0
    view = view_of(folder, 1)
    assert view.state is JobState.WAITING
    wait_for(lambda: "GPU" in (view_of(folder, 1).reason or ""), LONG)


def test_without_its_supervisor_a_job_runs_until_its_command_ends_and_is_lost(
    folder: JobsFolder, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    wait_here = f"echo on; while ! test -e {flag}; do sleep 0.05; done"
    submit([shell(wait_here, git=False), shell(wait_here, git=False, retry_lost=True)])
    for number in (1, 2):
        claim = until_begun(folder, number)
        os.kill(claim.pid, signal.SIGKILL)
        until_gone(claim)
        assert view_of(folder, number).state is JobState.RUNNING
    assert len(andon("leases", "--json").json()["leases"]) == 2  # the commands hold them
    flag.touch()
    queue = until_settled(folder)
    assert queue.statuses[1].state is JobState.LOST
    assert queue.statuses[2].state is JobState.SUCCEEDED
    assert len(queue.jobs[2].attempts) == 2


def test_a_command_without_a_supervisor_can_be_cancelled(folder: JobsFolder) -> None:
    submit([shell("echo on; sleep 600", git=False, grace_seconds=1.0)])
    claim = until_begun(folder, 1)
    os.kill(claim.pid, signal.SIGKILL)
    until_gone(claim)
    assert andon("cancel", "1").code == 0
    assert started_ticks(claim.group) != claim.group_ticks
    assert until_settled(folder).statuses[1].state is JobState.CANCELLED


def test_the_record_of_a_job_is_continued_after_its_dispatcher_was_killed(
    folder: JobsFolder, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    submit([shell(f"while ! test -e {flag}; do sleep 0.05; done", git=False)])
    until_running(folder, 1)
    record = Path(view_of(folder, 1).record or "")
    wait_for(lambda: '"sample"' in record.read_text(), LONG)
    assert kill_dispatcher(folder)
    before = record.read_text().count('"sample"')

    def goes_on() -> bool:
        wake(folder)  # the lock of the killed one is free a moment later
        return record.read_text().count('"sample"') > before

    wait_for(goes_on, LONG)
    assert kill_dispatcher(folder)
    wait_for(lambda: not is_dispatched(folder), LONG)  # on a busy machine it dies a moment later
    flag.touch()  # it ends while no dispatcher runs; its supervisor starts one
    wait_for(lambda: '"event":"end"' in record.read_text(), LONG)
    end = json.loads(record.read_text().splitlines()[-1])
    assert (end["state"], end["samples"] > before) == ("succeeded", True)


def test_a_lease_that_is_released_ends_its_job(folder: JobsFolder) -> None:
    submit([shell("sleep 600", git=False)])
    view = until_running(folder, 1)
    assert andon("release", str(view.lease)).code == 0
    queue = until_settled(folder)
    assert queue.statuses[1].state is JobState.CANCELLED
    assert queue.statuses[1].reason == "its lease was released"


def test_a_command_that_no_encoding_has_says_so(folder: JobsFolder) -> None:
    submit([local_spec(("\ud800",), DeviceRequest(), simulate=1, git=False)])
    (view,) = until_settled(folder).views()
    assert (view.state, view.exit_code) == (JobState.FAILED, 126)
    assert (view.reason or "").endswith(": not text that a command can have")


def test_a_zombie_that_is_not_reaped_does_not_delay_the_end(folder: JobsFolder) -> None:
    """As in a container without an init: here this process is who should reap it."""
    submit([shell("sleep 600 & echo $!; wait", git=False, grace_seconds=600.0)])
    until_begun(folder, 1)
    queue, child = Queue(folder), int(folder.output(1, 1).read_text())
    kernel = ctypes.CDLL(None)
    kernel.prctl(SUBREAPER, 1, 0, 0, 0)
    try:
        acts.cancel(folder, queue.jobs[1], queue.statuses[1])
        assert until_settled(folder).statuses[1].state is JobState.CANCELLED
    finally:
        kernel.prctl(SUBREAPER, 0, 0, 0, 0)
    assert os.waitpid(child, os.WNOHANG)[0] == child


def test_a_short_job_passes_a_large_one_only_where_that_is_not_delayed(folder: JobsFolder) -> None:
    folder.pause()
    two = DeviceRequest(least=2, most=2)
    submit([shell("sleep 600", git=False, simulate=2)])
    folder.unpause()
    until_running(folder, 1)
    submit([shell("true", name="large", git=False, simulate=2, request=two)])
    submit([shell("true", name="short", git=False, simulate=2, for_seconds=1.0)])
    wait_for(lambda: view_of(folder, 3).reason not in (None, "just queued"))
    assert view_of(folder, 3).state is JobState.WAITING  # the first has no limit
    assert "2 GPUs requested, 1 available" in (view_of(folder, 2).reason or "")
    assert andon("cancel", "1").code == 0
    assert {one.state for one in until_settled(folder).statuses.values()} == {
        JobState.CANCELLED,
        JobState.SUCCEEDED,
    }


def test_preferred_devices_are_taken_first_and_packed_jobs_share_one(folder: JobsFolder) -> None:
    part = DeviceRequest(
        memory_bytes=1 << 30, shared=True, layout=PlacementOrder.PACK, prefer=("3",)
    )
    submit([shell("sleep 600", git=False, request=part) for _ in range(2)])
    first, second = until_running(folder, 1), until_running(folder, 2)
    assert first.devices == second.devices == ("3",)
    assert andon("cancel", "1", "2").code == 0


def test_a_job_that_a_cordon_holds_up_says_so_and_starts_when_it_is_over(
    folder: JobsFolder,
) -> None:
    assert andon("cordon", "0", "--simulate", "4", "--reason", "a fan is replaced").code == 0
    submit([shell("true", request=DeviceRequest(least=4, most=4), git=False)])
    wait_for(lambda: "4 GPUs requested, 3" in (view_of(folder, 1).reason or ""), LONG)
    assert "ahead" not in (view_of(folder, 1).reason or "")
    assert any("a fan is replaced" in line for line in view_of(folder, 1).waiting_details)
    assert andon("uncordon", "0", "--simulate", "4").code == 0
    assert until_settled(folder).statuses[1].state is JobState.SUCCEEDED
