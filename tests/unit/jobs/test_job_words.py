"""Small things about jobs: the variables of a command, messages, and how a job is shown."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.app.messages.jobs import job_notice
from andon.cli.commands.explain.why_job import _lines
from andon.cli.commands.jobs import following, group
from andon.cli.commands.jobs.common import notice_if_interrupted
from andon.cli.commands.jobs.desks import desks_of
from andon.cli.main import run
from andon.cli.show.jobs import expected_text, render_job, render_jobs, why
from andon.cli.terminal import Choices
from andon.jobs import acts
from andon.jobs.folder import CANCELLED, CLAIM, open_jobs_folder
from andon.jobs.rules.retention import too_old
from andon.jobs.rules.states import JobStatus, job_statuses
from andon.jobs.rules.views import positions, view_of
from andon.jobs.rules.waiting import who_has
from andon.jobs.starting import lock_dispatcher
from andon.model.alert import Level
from andon.model.codec import to_json
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import AttemptClaim, Holdup, JobFacts, JobNote, JobState, dumps
from andon.model.job.spec import JobSpec
from andon.model.lease_list import WaitingRow
from andon.units import command_name
from andon.work.preparing import defaults, free_port
from tests.support.rows import rows

AT = 1_790_000_000.0
SPEC = JobSpec(
    12, "train.py", ("python", "train.py", "--token", "abc"), "/", DeviceRequest(2, 2), AT, "ada",
    shown=("A", "API_KEY"),
)  # fmt: skip


def test_a_command_has_a_port_of_its_own_unless_it_has_one() -> None:
    assert defaults({}, 5000) == {
        "PYTHONUNBUFFERED": "1",
        "MASTER_PORT": "5000",
        "PET_MASTER_PORT": "5000",
    }
    assert defaults({"MASTER_PORT": "1", "PYTHONUNBUFFERED": ""}, 5000) == {}
    assert defaults({"PET_MASTER_PORT": "1"}, 5000) == {"PYTHONUNBUFFERED": "1"}
    port = free_port()
    assert port is not None
    assert free_port(frozenset({port})) != port


def test_a_job_is_called_like_its_script() -> None:
    table = {("python", "a/train.py"): "train.py", ("python", "-m", "x"): "python", ("./go",): "go"}
    assert {argv: command_name(argv) for argv in table} == table


def test_a_job_that_waits_says_why_and_when_it_will_probably_start() -> None:
    facts = JobFacts(SPEC)
    holdup = Holdup("2 GPUs requested, 1 available", AT, AT + 3600, 6, ("GPU 0: held",))
    view = view_of(
        facts, job_statuses([facts], AT)[12], 1, holdup, {"A": "1", "API_KEY": "s", "B": "2"}
    )
    assert why(view, AT).startswith("no. 1: 2 GPUs requested, 1 available; expected about ")
    assert expected_text(view, AT).endswith(", from 6 runs")
    assert view.environment == {"A": "1", "API_KEY": "…"}
    assert "abc" not in view.command


def test_a_short_job_took_as_long_in_its_lines_as_in_the_list() -> None:
    facts = JobFacts(SPEC)
    view = replace(
        view_of(facts, job_statuses([facts], AT)[12]), state=JobState.SUCCEEDED, seconds=0.007
    )
    assert "7 ms" in "".join(line.plain for line in render_jobs([view], AT, 100))
    assert "  took      7 ms" in [line.plain for line in render_job(view, AT)]


def test_the_time_of_a_job_that_ended_without_starting_does_not_grow() -> None:
    never = JobFacts(SPEC, cancelled=JobNote(1, AT + 5, "ada"))
    view = view_of(never, job_statuses([never], AT + 9)[12])
    assert view.state is JobState.CANCELLED
    shown = [
        [line.plain for line in render_jobs([view], AT + after, 100)] for after in (10, 86_400)
    ]
    assert shown[0] == shown[1]
    waits = view_of(JobFacts(SPEC), job_statuses([JobFacts(SPEC)], AT)[12])
    assert "4 min" in render_jobs([waits], AT + 240, 100)[1].plain


def test_a_job_of_which_nothing_was_said_is_just_queued_or_far_behind() -> None:
    facts = JobFacts(SPEC)
    status = job_statuses([facts], AT)[12]
    assert why(view_of(facts, status, 1), AT) == "no. 1: just queued"
    assert why(view_of(facts, status, 51), AT) == "no. 51: 50 jobs are ahead of it"


def test_the_place_of_a_job_is_that_of_its_ticket_in_the_queue_of_the_machine() -> None:
    """A job that waits for another one is in no queue; those without a ticket follow the last."""
    known = {n: JobStatus(JobState.WAITING) for n in (1, 2, 3, 4)}
    known |= {
        5: JobStatus(JobState.WAITING, 1, "after job 1 (waiting)"),
        6: JobStatus(JobState.HELD),
    }
    keys = {n: (0, AT, n) for n in known}
    holdups = {1: Holdup("x", AT, place=2), 2: Holdup("x", AT, place=4), 3: Holdup("x", AT)}
    assert positions(keys, known, holdups) == {1: 2, 2: 4, 3: 5, 4: 6}
    assert positions(keys, known, {}) == {1: 1, 2: 2, 3: 3, 4: 4}


@rows(
    ("held", "words"),
    [
        ([], ""),
        ([("0", "bob"), ("1", "ada"), ("2", "bob")], "bob has GPU 0, 2; ada has GPU 1"),
        ([(str(n), "bob") for n in range(9)], "bob has 9 GPUs"),
        (
            [(str(n), f"u{n}") for n in range(5)],
            "u0 has GPU 0; u1 has GPU 1; u2 has GPU 2; 2 more users",
        ),
    ],
)
def test_who_has_what_a_job_waits_for(held: list[tuple[str, str]], words: str) -> None:
    assert who_has(held) == words


def test_the_list_has_waiting_jobs_by_their_places(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = open_jobs_folder()
    made = folder.submit(
        [
            replace(SPEC, name=f"n{at}", request=replace(SPEC.request, priority=at))
            for at in range(3)
        ]
    )
    acts.hold(folder, JobFacts(made[0]), JobStatus(JobState.WAITING))
    folder.pause()
    for words in (["jobs"], ["jobs", "--state", "waiting"]):
        assert run(words) == 0
        lines = capsys.readouterr().out.splitlines()[1:]
        places = [line.split()[1] for line in lines if line.split()[0].isdecimal()]
        assert places == ["n2", "n1", "n0"][: len(places)], words
    views, left, _ = group._own(desks_of(Choices()), True, None, None)
    assert ([one.number for one in views], left) == ([3, 2, 1], 0)


def test_the_output_of_a_group_that_waits_is_not_just_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = open_jobs_folder()
    folder.submit([replace(SPEC, name="tune", group="tune") for _ in range(2)])
    folder.pause()
    assert run(["logs", "tune"]) == 0
    said = capsys.readouterr()
    assert (said.out, "none of these 2 jobs has printed" in said.err) == ("", True)


def test_one_job_behind_is_not_jobs() -> None:
    facts = JobFacts(SPEC)
    view = view_of(facts, job_statuses([facts], AT)[12])
    lines = [one.plain for one in _lines(view, [], (WaitingRow(1, "bob", 1, None, AT, 0, 1),))]
    assert lines[-1] == "  queue 1: bob, 1 GPU, 1 more job behind it"


def test_a_word_that_means_no_job_keeps_no_other_from_being_cancelled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = open_jobs_folder()
    folder.submit([replace(SPEC, name=name) for name in ("a", "b", "b", "c")])
    folder.pause()
    lock = lock_dispatcher(folder)  # as if one ran
    assert lock is not None
    for words, code, out in (
        (["cancel", "1", "9999"], 5, ["job 1 cancelled", "there is no job 9999"]),
        (["jobs", "hold", "9999", "c"], 5, ["there is no job 9999", "job 4 is held"]),
        (["cancel", "b"], 6, ["2 jobs are called 'b'", "the newest first: 3, 2"]),
        (["jobs", "show", "9999", "b"], 5, ["job 3 is the newest of 2 called b: 3, 2"]),
        (["logs", "a"], 0, ["job 1 has not started: it is cancelled"]),
        (["cancel", "2"], 0, ["job 2 cancelled"]),
        (["cancel", "b"], 0, ["job 3 cancelled"]),
        (["jobs", "rm", "a", "nobody"], 2, ["job 1 deleted", "'nobody' is not a job"]),
    ):
        assert run(words) == code, words
        said = capsys.readouterr()
        assert [one for one in out if one not in said.err + said.out] == [], words
    os.close(lock)


def test_a_message_about_a_failure_is_a_warning() -> None:
    facts = JobFacts(SPEC, expired=JobNote(1, AT, "", "Insufficient GPUs after waiting 5 min"))
    view = view_of(facts, job_statuses([facts], AT)[12])
    notice = job_notice(view, AT, "node7")
    assert notice.alert.level is Level.WARNING
    assert notice.alert.message == (
        "Job 12 (train.py) failed: Insufficient GPUs after waiting 5 min"
    )
    good = job_notice(replace(view, state=JobState.SUCCEEDED, reason=None), AT, "node7")
    assert good.alert.level is Level.INFO


def test_old_jobs_are_deleted_unless_another_waits_for_them() -> None:
    ended = JobNote(1, AT)
    jobs = {
        1: JobFacts(replace(SPEC, number=1), cancelled=ended),
        2: JobFacts(replace(SPEC, number=2), cancelled=ended),
        3: JobFacts(replace(SPEC, number=3, after_any=(2,))),
        4: JobFacts(replace(SPEC, number=4), cancelled=replace(ended, at=AT + 95)),
    }
    known = job_statuses(jobs.values(), AT)
    known[3] = job_statuses([jobs[3]], AT)[3]
    assert too_old(jobs, known, AT + 100, 10.0) == [1]
    assert too_old(jobs, known, AT + 100, 1000.0) == []


def test_who_stops_waiting_reads_that_the_jobs_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    for labels, said in (
        (["14"], "andon: job 14 goes on; to end it: andon cancel 14\n"),
        (["14", "15"], "andon: jobs 14, 15 go on; to end them: andon cancel 14 15\n"),
    ):
        with pytest.raises(KeyboardInterrupt), notice_if_interrupted(Choices(), labels):
            raise KeyboardInterrupt
        assert capsys.readouterr().err == said


@pytest.fixture
def output() -> Path:
    """What job 1 has written, which was cancelled meanwhile."""
    folder = open_jobs_folder()
    folder.submit([SPEC])
    folder.attempt(1, 1).mkdir()
    claim = to_json(AttemptClaim(5, 6, "boot", 7, 8, AT))
    (folder.attempt(1, 1) / CLAIM).write_text(dumps(claim))
    folder.note(1, CANCELLED, JobNote(1, AT, "ada"))
    return folder.output(1, 1)


def test_logs_say_that_earlier_lines_are_left_out(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output.write_text("".join(f"{number}\n" for number in range(1, 101)))
    assert run(["logs", "1"]) == 0
    said = capsys.readouterr()
    assert said.out.split() == [str(number) for number in range(86, 101)]
    assert said.err == "andon: the last 15 lines; all of them: andon logs 1 -n 0\n"
    for given in (["-n", "3"], ["-n", "0"], ["-n", "100"]):
        assert run(["logs", "1", *given]) == 0
        assert capsys.readouterr().err == "", "as many as were asked for"
    output.write_text("one\n")
    assert run(["logs", "1"]) == 0
    assert capsys.readouterr() == ("one\n", "")


def test_a_character_on_the_edge_of_two_pieces_is_whole(
    output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "x" * (following.LOG_BYTES - 1) + "训练\n"
    output.write_text(text, encoding="utf-8")
    assert run(["logs", "1", "-n", "0"]) == 0
    assert capsys.readouterr().out == text
