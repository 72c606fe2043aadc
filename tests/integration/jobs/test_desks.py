"""What a person sees of a job does not depend on who takes it, except where a table says so."""

import json
import re
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.integration.jobs.desks import (
    HERE,
    LAB,
    SLURM,
    UNKNOWN,
    Desk,
    Done,
    Known,
    known_jobs,
    masked,
    opened_desk,
    plain,
    until_idle,
)
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.timeout(150)]

Golden = Callable[[str, str], None]
NO_JOB = {
    HERE: f"andon: there is no job {UNKNOWN}\nhint: andon jobs --all lists them\n",
    **{
        name: f"andon: {name} knows no job {UNKNOWN} of yours\n"
        "hint: andon jobs lists those that have not ended, or ended within a day\n"
        for name in (LAB, SLURM)
    },
}
BY_SIGNAL = {
    HERE: "ended by signal 9", LAB: "killed by signal 9", SLURM: "exit code 137",
}  # fmt: skip
DESKS = [HERE, LAB, pytest.param(SLURM, marks=pytest.mark.long)]


@pytest.fixture(scope="module", params=DESKS)
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    with opened_desk(request.param, request) as found:
        yield found


@pytest.fixture(scope="module")
def known(desk: Desk) -> Known:
    return known_jobs(desk)


# Texts and JSON.


def test_what_is_shown_of_jobs_is_as_it_was(desk: Desk, known: Known, golden: Golden) -> None:
    text = ""
    for job in ("good", "bad", "killed", "runs", "waits"):
        for words in (("jobs", "show"), ("why", "--job"), ("logs",)):
            done = desk.andon(*words, known.named(job, desk))
            assert done.code == 0
            text += f"$ andon {' '.join(words)} {job.upper()}\n{done.out}{done.err}\n"
    golden(f"desks/{desk.name}.txt", plain(text, desk, known))


def test_the_list_in_json_is_as_it_was(desk: Desk, known: Known, golden: Golden) -> None:
    golden(f"desks/{desk.name}-jobs.json", masked(known.listed))


def test_a_job_in_json_is_as_it_was(desk: Desk, known: Known, golden: Golden) -> None:
    shown = desk.fine("jobs", "show", "--json", known.bad, known.waits)
    golden(f"desks/{desk.name}-show.json", masked(shown))


def test_why_in_json_names_the_job(desk: Desk, known: Known) -> None:
    if desk.name == HERE:  # it has a schema of its own
        found = json.loads(desk.fine("why", "--json", "--job", known.waits))
        assert known.waits in json.dumps(found)
        return
    found = json.loads(desk.fine("why", "--json", known.waits))
    assert (found["schema"], found["job"]["label"]) == ("andon.why_job/1", known.waits)
    assert all(one["text"] for one in found["reasons"])


# Waiting.

LATE = "andon: the job has not ended in time\n"


def test_the_exit_code_of_wait_is_that_of_the_worst_job(desk: Desk, known: Known) -> None:
    expected = {
        "good": (0, ""),
        "bad": (3, ""),
        "killed": (137, ""),
        "good bad": (3, ""),
        "bad killed good": (137, ""),
        "unknown": (5, NO_JOB[desk.name]),
        "good unknown": (5, NO_JOB[desk.name]),
        "runs": (75, LATE),
        "waits": (75, LATE),
        "bad runs": (75, LATE.replace("the job has not", "not all jobs have")),
    }
    found = {}
    for row in expected:
        jobs = [known.named(word, desk) for word in row.split()]
        done = desk.andon("jobs", "wait", "--timeout", "0.2s", *jobs)
        assert done.out == ""
        found[row] = (done.code, done.err)
    assert found == expected


def test_submit_can_wait_for_the_end(desk: Desk) -> None:
    expected = {
        "exit 0": (0, ""),
        "exit 4": (4, "failed: exit code 4"),
        "kill -9 $$": (137, f"failed: {BY_SIGNAL[desk.name]}"),
    }
    for script, (code, words) in expected.items():
        done = desk.andon("submit", *desk.on, "--wait", "--", "sh", "-c", script)
        job = done.out.removesuffix("\n")
        err = f"andon: job {job} {words}\n" if words else ""
        assert done == Done(code, done.out, err), script
        assert re.fullmatch(rf"{desk.prefix}\d+", job)


def test_submit_that_waits_hears_that_its_job_was_cancelled(desk: Desk) -> None:
    with desk.start("submit", *desk.on, "--wait", "--", "sleep", "600") as process:
        assert process.stdout is not None
        job = process.stdout.readline().strip()
        desk.until(job, "running")
        desk.fine("cancel", job)
        _, err = process.communicate(timeout=60)
    assert process.returncode == (143 if desk.name == HERE else 1)
    assert f"andon: job {job} cancelled: " in err


def test_who_stops_waiting_is_shown_how_to_end_the_job(desk: Desk) -> None:
    with desk.start("submit", *desk.on, "--wait", "--", "sleep", "600") as process:
        assert process.stdout is not None
        job = process.stdout.readline().strip()
        desk.until(job, "running")
        until_idle(process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)
    assert f"job {job} goes on; to end it: andon cancel {job}\n" in err
    assert desk.job(job)["state"] == "running"
    desk.fine("cancel", job)


def test_a_job_that_goes_while_it_is_waited_for_is_an_error(desk: Desk, known: Known) -> None:
    job = desk.submit("--after", known.runs, "--", "true")
    number = job.removeprefix(desk.prefix)
    variables = desk.forgetful() if desk.name == SLURM else {}
    with desk.start("jobs", "wait", job, **variables) as process:
        until_idle(process)
        process.send_signal(signal.SIGSTOP)  # it does not see that the job ends first
        if desk.lab is not None:
            desk.lab.forget(number)
        elif desk.name == SLURM:
            (desk.folder / "forgotten").write_text(f"^{number}\n")
        else:
            desk.fine("cancel", job)
            desk.fine("jobs", "rm", job)
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=60)
    gone = "was deleted meanwhile" if desk.name == HERE else "is no longer known"
    gone = f"andon: job {job} {gone}: how it ended is not known\n"
    assert (process.returncode, err) == (5, gone)
    if desk.name == SLURM:  # only this command did not see it
        desk.fine("cancel", job)


# Cancelling.


def test_cancel_says_what_becomes_of_each_job(desk: Desk) -> None:
    here = desk.name == HERE
    runs = desk.submit("--", "sleep", "600")
    waits = desk.submit("--after", runs, "--", "true")
    desk.until(runs, "running")
    ended = desk.ended("--", "sh", "-c", "exit 3")
    asked = "cancelled" if here else "is asked to end"
    again = "was already cancelled" if here else "is asked to end"
    late = "has ended already" if here else "is asked to end"
    for job, words in (
        (waits, asked), (runs, asked), (waits, again), (runs, again), (ended, late),
    ):  # fmt: skip
        assert desk.andon("cancel", job) == Done(0, "", f"andon: job {job} {words}\n")
    desk.until(runs, "cancelled")
    desk.until(waits, "cancelled")
    assert desk.job(ended)["state"] == "failed"
    assert desk.andon("jobs", "wait", waits) == Done(1, "", "")
    assert desk.andon("jobs", "wait", runs) == Done(143 if here else 1, "", "")


def test_cancel_of_an_unknown_job_is_an_error_and_the_others_end(desk: Desk) -> None:
    job = desk.submit("--", "sleep", "600")
    done = desk.andon("cancel", desk.unknown, job)
    words = {
        HERE: NO_JOB[HERE] + f"andon: job {job} cancelled\n",
        LAB: f"andon: lab: there is no job {UNKNOWN}\n",
        SLURM: f"andon: slurm: Slurm knows no job {UNKNOWN}\n"
        "hint: it forgets jobs some time after they end\n",
    }
    other = "" if desk.name == HERE else f"andon: job {job} is asked to end\n"
    assert done == Done(5, "", words[desk.name] + other)
    desk.until(job, "cancelled")


# Output.


def test_the_output_of_a_job_is_printed(desk: Desk, known: Known) -> None:
    assert desk.fine("logs", known.good) == "one\ntwo\n"
    assert desk.fine("logs", "-n", "0", known.good) == "one\ntwo\n"  # all
    assert desk.fine("logs", "-n", "1", known.good) == "two\n"
    assert desk.fine("logs", "-f", known.good) == "one\ntwo\n"
    assert desk.andon("logs", known.bad) == Done(0, "", "")
    assert desk.andon("logs", desk.unknown) == Done(5, "", NO_JOB[desk.name])


def test_output_is_followed_until_the_end(desk: Desk) -> None:
    job = desk.submit("--", "sh", "-c", "echo up; sleep 1; echo done; exit 3")
    done = desk.andon("logs", "-f", job)
    assert (done.code, done.out) == (0, "up\ndone\n")


def test_what_is_run_ends_with_its_job_although_there_is_no_output(desk: Desk) -> None:
    if desk.lab is None:
        pytest.skip("its output cannot be taken away")
    desk.lab.break_(silent="the agent of the node is gone")
    with desk.start("run", *desk.on, "--", "sh", "-c", "exit 9") as process:
        try:
            wait_for(lambda: process.poll() is not None, 10)
        finally:
            process.kill()
            desk.lab.break_()
    assert process.returncode == 9


# Several at once.


def test_an_array_is_one_name_and_many_jobs(desk: Desk) -> None:
    script = ("--", "sh", "-c", "echo a; exit 4")
    done = desk.andon("submit", *desk.on, "--wait", "--array", "0-1", *script)
    job = done.out.strip()
    failed = "".join(f"andon: job {job}_{one} failed: exit code 4\n" for one in (0, 1))
    assert done == Done(4, f"{job}\n", failed)
    each = "".join(f"==> job {job}_{one} <==\na\n" for one in (0, 1))
    assert desk.fine("logs", job) == each
    assert desk.fine("logs", "-f", job) == each
    assert desk.fine("logs", f"{job}_1") == "a\n"
    assert desk.andon("jobs", "wait", job).code == 4
    shown = json.loads(desk.fine("jobs", "show", "--json", job))["jobs"]
    assert [one["array_index"] for one in shown] == [0, 1]


def test_an_array_is_cancelled_by_its_name(desk: Desk) -> None:
    job = desk.submit("--array", "0-2%1", "--", "sleep", "600")
    desk.fine("cancel", job)
    for one in range(3):
        desk.until(f"{job}_{one}", "cancelled")


@pytest.fixture(scope="module")
def sweep(desk: Desk) -> list[str]:
    """The jobs of the group `tune`."""
    words = ("--wait", "--param", "n=5,6", "--name", "tune", "--", "sh", "-c", "echo {n}; exit {n}")
    done = desk.andon("submit", *desk.on, *words)
    jobs = done.out.split()
    failed = f"andon: job {jobs[0]} failed: exit code 5\nandon: job {jobs[1]} failed: exit code 6\n"
    assert (done.code, done.err) == (6, failed)
    return jobs


def test_a_sweep_is_a_group(desk: Desk, sweep: list[str]) -> None:
    listed = json.loads(desk.fine("jobs", "--group", "tune", "--json"))["jobs"]
    assert [(one["label"], one["params"]["n"]) for one in listed] == [
        (sweep[0], "5"), (sweep[1], "6"),
    ]  # fmt: skip
    assert desk.andon("jobs", "wait", "tune") == Done(6, "", "")
    shown = json.loads(desk.fine("jobs", "show", "--json", "tune"))["jobs"]
    assert [one["label"] for one in shown] == sweep
    assert desk.andon("cancel", "tune").code == 0


@pytest.mark.parametrize("follow", [(), ("-f",)], ids=["", "follow"])
def test_the_output_of_a_group_is_that_of_all_its_jobs(
    desk: Desk, sweep: list[str], follow: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    first, second = sweep
    expected = f"==> job {first} n=5 <==\n5\n==> job {second} n=6 <==\n6\n"
    assert desk.fine("logs", *follow, "tune") == expected


def test_a_job_of_a_file_comes_after_another(desk: Desk) -> None:
    file = desk.folder / "two.toml"
    file.write_text(
        f'on = "{desk.name}"\n'
        '[[job]]\nname = "first"\ncommand = ["sh", "-c", "echo one; sleep 1"]\n'
        '[[job]]\nname = "second"\nafter = "first"\ncommand = ["sh", "-c", "exit 3"]\n'
    )
    done = desk.andon("submit", "--wait", str(file))
    first, second = done.out.split()
    assert done == Done(3, done.out, f"andon: job {second} failed: exit code 3\n")
    ended, began = desk.job(first)["ended"], desk.job(second)["started"]
    assert ended <= began


def test_what_would_be_submitted_is_shown_and_not_submitted(desk: Desk, golden: Golden) -> None:
    if desk.name == SLURM:
        pytest.skip("it prints its own words, which other tests read")
    file = desk.folder / "dry.toml"
    file.write_text(
        f'on = "{desk.name}"\n[[job]]\nname = "first"\ncommand = ["true"]\n'
        '[[job]]\nname = "second"\nafter = "first"\ncommand = ["true"]\n'
    )
    before = desk.fine("jobs", "--all", "--json")
    text = ""
    for words in (
        (*desk.on, "--", "true"), (*desk.on, "--array", "0-2%1", "--", "true"),
        (*desk.on, "--param", "n=1,2", "--", "echo", "{n}"), (file.name,),
    ):  # fmt: skip
        text += f"$ andon submit --dry-run {' '.join(words)}\n"
        text += desk.fine("submit", "--dry-run", *words)
    golden(f"desks/{desk.name}-dry.txt", text.replace(str(desk.folder), "FOLDER"))
    after = desk.fine("jobs", "--all", "--json")
    assert masked(after).count('"label"') == masked(before).count('"label"')


# What one desk cannot.


def test_an_option_that_only_others_have_is_refused(desk: Desk) -> None:
    here = "is for jobs on this machine\nhint: leave it out, or use --on here\n"
    clusters = "is for jobs on a cluster\nhint: add --on NAME\n"
    only_here = [("--unique",), ("--notify", "end")]
    only_clusters = [("--engine-option", "x"), ("--per-gpu", "2"), ("--kind", "x")]
    words, options = (clusters, only_clusters) if desk.name == HERE else (here, only_here)
    for option in options:
        done = desk.andon("submit", *desk.on, *option, "--", "true")
        assert done == Done(2, "", f"andon: {option[0]} {words}")


@pytest.mark.parametrize("act", ["hold", "resume", "retry", "requeue", "move", "rm"])
def test_what_only_the_queue_can_do_is_refused_for_jobs_of_others(
    desk: Desk, known: Known, act: str
) -> None:
    if desk.name == HERE:
        pytest.skip("the queue can")
    done = desk.andon("jobs", act, known.bad, *(["--first"] if act == "move" else []))
    words = "is a job of a cluster, which has its own queue"
    hint = "andon jobs show, wait, cancel, logs and why work on it"
    assert done == Done(2, "", f"andon: {known.bad} {words}\nhint: {hint}\n")
