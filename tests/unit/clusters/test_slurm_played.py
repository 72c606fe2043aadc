"""What andon does and says when Slurm refuses, is away, or ends jobs: its commands are played."""

import re
import time
from pathlib import Path

import pytest

from andon.clusters.slurm import SlurmCluster
from andon.clusters.slurm.rules.answers import PAST_FIELDS, SEPARATOR
from andon.errors import AndonError, Denied, Gone, Invalid, Unavailable
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.clusters.notes import submit_once
from andon.jobs.clusters.run_notes import RunNote, write_note
from andon.jobs.rules.cluster_task import task_of
from andon.jobs.rules.cluster_views import ClusterPage, page_line
from andon.model.job.cluster import ClusterJob, NotSent
from andon.model.job.desk import JobAct
from andon.model.job.facts import JobState
from tests.support.played_slurm import DOWN, Played, opened, row, submission
from tests.support.surroundings import anothers


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture
def slurm(played: Played, tmp_path: Path) -> SlurmCluster:
    return opened(played, tmp_path / "logs")


@pytest.fixture
def desk(slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterDesk:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return ClusterDesk("slurm", 3.0, lambda: slurm)


def jobs_of(desk: ClusterDesk) -> list[ClusterJob]:
    return list(desk.refreshed(ClusterPage("slurm")).jobs)


# What Slurm refuses: a sentence of ours, then its own words.


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        ("sbatch: error: invalid partition specified: nope\nsbatch: error: Batch job submission "
         "failed: Invalid partition name specified", Invalid,
         "there is no such partition: Invalid partition name specified"),
        ("sbatch: error: Batch job submission failed: Requested node configuration is not "
         "available", Invalid, "no node has what it asks for: so many GPUs, this model, or the "
         "rest: Requested node configuration is not available"),
        ("sbatch: error: Batch job submission failed: Invalid job array specification", Invalid,
         "the array is longer than this site allows: Invalid job array specification"),
        ("sbatch: error: Memory specification can not be satisfied\nsbatch: error: Batch job "
         "submission failed: Requested node configuration is not available", Invalid,
         "no node has so much memory: Requested node configuration is not available"),
        ("sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or "
         "exceeds some limit)", Invalid, "its time limit is longer than the partition allows: "
         "Requested time limit is invalid (missing or exceeds some limit)"),
        ("sbatch: unrecognized option '--nope'\nTry \"sbatch --help\" for more information",
         Invalid, "sbatch does not know this option: unrecognized option '--nope'"),
        ("sbatch: error: Batch job submission failed: Invalid node name specified", Invalid,
         "there is no such node: Invalid node name specified"),
        ("sbatch: error: Batch job submission failed: Invalid qos specification", Invalid,
         "there is no such quality of service: Invalid qos specification"),
        ("sbatch: error: Batch job submission failed: Something new\x1b[2J", Invalid,
         "Slurm refuses it: Something new?[2J"),
        ("sbatch: error: Batch job submission failed: User's group not permitted to use this "
         "partition", Denied,
         "Slurm does not allow it: User's group not permitted to use this partition"),
        ("", Invalid, "Slurm refuses it: it gave no reason"),
    ],
)  # fmt: skip
def test_a_refusal_is_one_sentence_with_slurms_own_words(
    slurm: SlurmCluster, played: Played, said: str, kind: type[AndonError], sentence: str
) -> None:
    played.answers["sbatch"] = (1, "", said)
    with pytest.raises(kind) as caught:
        slurm.submit(submission())
    assert caught.value.reason == sentence
    assert caught.value.hint


def test_a_time_over_the_partitions_limit_is_refused_before_it_waits_for_ever(
    slurm: SlurmCluster, played: Played
) -> None:
    with pytest.raises(Invalid) as caught:
        slurm.submit(submission(options=("--partition=short",), for_seconds=7200.0))
    assert caught.value.reason == (
        "its time limit is longer than the partition short allows, which is 10 min: "
        "it would wait forever (PartitionTimeLimit)"
    )
    assert played.count("sbatch") == 0


@pytest.mark.parametrize(
    ("options", "seconds"),
    [((), 7200.0), (("--partition=short",), 600.0), (("-pshort",), None),
     (("-pshort,main",), 7200.0), (("-pshort", "--qos=long"), 7200.0), (("-pother",), 7200.0)],
)  # fmt: skip
def test_what_a_partition_allows_or_may_allow_is_submitted(
    slurm: SlurmCluster, options: tuple[str, ...], seconds: float | None
) -> None:
    assert slurm.submit(submission(options=options, for_seconds=seconds)) == "4711"


def test_without_its_commands_the_reason_is_said(slurm: SlurmCluster, played: Played) -> None:
    played.answers["sbatch"] = FileNotFoundError()
    with pytest.raises(AndonError, match="there is no sbatch on PATH"):
        slurm.submit(submission())


def test_somebody_elses_job_is_not_ended(slurm: SlurmCluster, played: Played) -> None:
    played.answers["squeue"] = (0, row(UserName="ana"), "")
    said = "scancel: error: Kill job error on job id 4711: Access/permission denied"
    played.answers["scancel"] = (210, "", said)
    with pytest.raises(Denied, match="Access/permission denied"):
        slurm.cancel(["4711"])


# Away, slow, killed in the middle, a full home.


AWAY = "sbatch: error: Batch job submission failed: Unable to contact slurm controller"


def test_a_controller_that_is_away_got_no_job(desk: ClusterDesk, played: Played) -> None:
    played.answers["sbatch"] = (1, "", f"{AWAY} (connect failure)")
    with pytest.raises(NotSent, match="Slurm's controller does not answer"):
        desk.submit([submission()])
    assert desk.listing().views == ()


def test_a_controller_that_is_away_is_said_at_once(slurm: SlurmCluster, played: Played) -> None:
    played.answers["scontrol ping"] = (0, DOWN, "")
    for ask in (lambda: slurm.jobs(0.0), slurm.nodes, lambda: slurm.cancel(["4711"])):
        with pytest.raises(Unavailable):
            ask()
    assert set(played.asked) == {"scontrol"}  # nothing that would wait for it


def test_the_list_says_for_how_long_it_has_not_answered() -> None:
    page = ClusterPage("slurm", at=100.0).failed("Slurm's controller does not answer", 110.0)
    assert page_line(page, 112.0, "12:03") == (
        "slurm: Slurm's controller has not answered for 12 s; its jobs are as of 12:03"
    )


def test_a_slow_controller_is_unavailable(slurm: SlurmCluster, played: Played) -> None:
    played.answers["squeue"] = TimeoutError()
    with pytest.raises(Unavailable, match="no answer within 3 s"):
        slurm.jobs(0.0)


@pytest.mark.parametrize("said", ["Socket timed out on send/recv operation", "Unable to contact "
                                  "slurm controller (receive failure)"])  # fmt: skip
def test_one_that_stops_in_the_middle_may_have_taken_the_job(
    desk: ClusterDesk, played: Played, said: str
) -> None:
    played.answers["sbatch"] = (1, "", f"sbatch: error: Batch job submission failed: {said}")
    with pytest.raises(Unavailable, match="whether it took the job is not known") as caught:
        desk.submit([submission()])
    assert not isinstance(caught.value, NotSent)
    played.answers["squeue"] = (0, row(), "")  # it had
    assert desk.submit([submission()])[0].label == "slurm:4711"
    assert played.count("sbatch") == 1


@pytest.mark.parametrize("taken", [True, False])
def test_killed_between_note_and_answer_nothing_is_submitted_twice(
    desk: ClusterDesk, slurm: SlurmCluster, played: Played, taken: bool
) -> None:
    """Killed before sbatch ran, or before its answer came."""
    played.answers["sbatch"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        submit_once("slurm", slurm, submission())
    played.answers["sbatch"] = (0, "4712\n", "")
    played.answers["squeue"] = (0, row() if taken else "", "")
    assert desk.submit([submission()])[0].label == f"slurm:{'4711' if taken else '4712'}"
    assert played.count("sbatch") == (1 if taken else 2)


def test_a_job_that_arrives_after_its_client_was_killed_is_not_submitted_again(
    slurm: SlurmCluster, played: Played
) -> None:
    played.answers["squeue"] = lambda: (0, row() if played.count("squeue") > 2 else "", "")
    assert slurm.submit(submission(), again=True) == "4711"
    assert (played.count("squeue"), played.count("sbatch")) == (3, 0)


def test_a_label_that_was_answered_is_not_looked_for(desk: ClusterDesk, played: Played) -> None:
    assert {desk.submit([submission()])[0].label for _ in range(2)} == {"slurm:4711"}
    assert played.asked == ["sbatch"]


def test_a_home_that_cannot_be_written_is_said_before_anything_is_submitted(
    played: Played, tmp_path: Path
) -> None:
    (tmp_path / "home").touch()
    slurm = opened(played, tmp_path / "home" / "logs")
    with pytest.raises(NotSent, match="cannot be written: "):
        slurm.submit(submission())
    assert played.count("sbatch") == 0
    assert slurm.jobs(0.0) == []  # the list needs no file


# How jobs ended.


@pytest.mark.parametrize(
    ("values", "state", "reason"),
    [
        ({"State": "PREEMPTED"}, JobState.CANCELLED, "a job with a higher priority took its place"),
        ({"State": "TIMEOUT", "exit_code": "15"}, JobState.TIMED_OUT, "it reached its time limit"),
        ({"State": "OUT_OF_MEMORY", "exit_code": "0:125"}, JobState.FAILED,
         "it used more of the node's memory than it asked for"),
        ({"State": "NODE_FAIL"}, JobState.LOST, "its node failed"),
        ({"State": "CANCELLED", "exit_code": "15"}, JobState.CANCELLED, "cancelled"),
    ],
)  # fmt: skip
def test_how_a_job_ended_is_said(
    slurm: SlurmCluster, played: Played, values: dict[str, str], state: JobState, reason: str
) -> None:
    played.answers["squeue"] = (0, row(**values), "")
    (job,) = slurm.jobs(0.0)
    assert (job.state, job.reason) == (state, reason)
    assert slurm.job("4711").reason == reason


def past(state: str) -> str:
    values = {
        "JobID": "4711", "State": state, "User": "root", "Submit": "1794919219",
        "Start": "1794919220", "End": f"{time.time():.0f}", "AllocTRES": "gres/gpu=1",
        "NodeList": "n1", "Partition": "main", "ExitCode": "0:15", "Comment": "andon:a1b2",
        "JobName": "train",
    }  # fmt: skip
    return SEPARATOR.join(values[name] for name in PAST_FIELDS) + "\n"


def test_one_that_ended_while_nobody_looked_is_known_by_the_accounts(
    slurm: SlurmCluster, played: Played
) -> None:
    played.answers["sacct"] = (0, past("CANCELLED by 0"), "")
    (job,) = slurm.jobs(0.0)
    assert (job.state, job.reason) == (JobState.CANCELLED, "cancelled by user 0")


def test_accounts_that_are_away_cost_no_list(slurm: SlurmCluster, played: Played) -> None:
    played.answers["squeue"] = (0, row(), "")
    away = ("sacct: error: slurm_persist_conn_open_without_init: failed to open persistent "
            "connection to host:db:6819: Connection refused\nsacct: error: Sending "
            "PersistInit msg: Connection refused\nsacct: error: Problem talking to the "
            "database: Connection refused")  # fmt: skip
    for said, error in (("Slurm accounting storage is disabled", Gone), (away, Unavailable)):
        played.answers["sacct"] = (1, "", said)
        assert [job.id for job in slurm.jobs(0.0)] == ["4711"]
        with pytest.raises(error):  # one that they might have known is not said to be unknown
            slurm.job("4712")


def test_a_drained_node_is_shown_with_its_reason(slurm: SlurmCluster, played: Played) -> None:
    fields = ("n1", "drained", "gpu:4", "gpu:0", "andon: GPU 2: lost")
    played.answers["sinfo"] = (0, SEPARATOR.join(fields) + SEPARATOR + "\n", "")
    (node,) = slurm.nodes()
    assert (node.usable, node.free, node.note) == (False, 0, "andon: GPU 2: lost")


# How often Slurm is asked.


def test_the_list_is_asked_for_once_in_five_seconds_whoever_asks(
    desk: ClusterDesk, played: Played, tmp_path: Path
) -> None:
    played.answers["squeue"] = (0, row(), "")
    again = opened(played, tmp_path / "logs")  # another command of the same user
    for one in (desk, ClusterDesk("slurm", 3.0, lambda: again)):
        assert [job.label for job in one.listing().views] == ["slurm:4711"]
    assert played.count("squeue") == 1


def test_one_job_is_asked_for_alone(slurm: SlurmCluster, played: Played) -> None:
    played.answers["squeue -h -r -a --states=all --jobs=4711"] = (0, row(), "")
    slurm.log("4711", None, 1000)
    assert slurm.job("4711").state is JobState.RUNNING
    assert played.asked == ["squeue", "squeue"]


def test_the_output_of_a_job_that_slurm_forgot_is_still_read(
    slurm: SlurmCluster, played: Played, tmp_path: Path
) -> None:
    said = "slurm_load_jobs error: Invalid job id specified"
    played.answers["squeue"] = (1, "", said)
    with pytest.raises(Gone):
        slurm.log("4711", None, 1000)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "4711.out").write_text("done\n")
    part = slurm.log("4711", None, 1000)
    assert (part.text, part.ended) == ("done\n", True)


def test_a_job_that_waits_for_gpus_is_explained_by_who_has_them(
    desk: ClusterDesk, played: Played
) -> None:
    waits = row(State="PENDING", Reason="Priority", NodeList="", StartTime="N/A")
    end = time.time() + 3600
    runs = row(JobID="9", State="RUNNING", NodeList="n1", EndTime=f"{end:.0f}", UserName="ana",
               SubmitTime=f"{end - 60:.0f}", StartTime=f"{end - 7200:.0f}")  # fmt: skip
    played.answers["squeue"] = (0, waits, "")
    played.answers["squeue -h -r -a --states=running"] = (0, runs, "")
    node = ("n1", "mixed", "gpu:1", "gpu:1", "none")
    played.answers["sinfo"] = (0, SEPARATOR.join(node) + SEPARATOR + "\n", "")
    (job,) = jobs_of(desk)
    assert re.search("needs 1 GPU on one node: n1 has 0 free; job 9 must end by ", job.reason or "")
    why, held = desk.reasons("4711")
    assert (why.text, why.advice) == (job.reason, "a shorter --for may let it start in a gap")
    assert held.text == "1 of 1 GPUs are given out: 9 1 (1 h)"
    played.answers["sinfo"] = (1, "", "slurm_load_partitions: Socket timed out")
    assert [one.reason for one in jobs_of(desk)] == ["other jobs come first"]


@pytest.mark.parametrize("odd", ["--user=anna", "4711;4712", "../4711", "9" * 400])
def test_an_id_that_is_none_reaches_no_command(
    slurm: SlurmCluster, played: Played, odd: str
) -> None:
    played.answers["squeue"] = (0, row(JobID=odd), "")
    with pytest.raises(Gone):
        slurm.cancel([odd])
    assert not played.count("scancel")


def test_a_job_whose_numbers_are_too_long_costs_no_list(
    slurm: SlurmCluster, played: Played
) -> None:
    huge = "9" * 5000
    odd = row(ArrayTaskID=huge, StartTime=huge, exit_code=huge, TimeLimit=huge)
    played.answers["squeue"] = (0, odd + row(JobID="4712"), "")
    assert "4712" in [job.id for job in slurm.jobs(0.0)]


def test_what_this_user_changed_is_seen_at_once(desk: ClusterDesk, played: Played) -> None:
    assert desk.listing().views == ()
    desk.submit([submission()])
    played.answers["squeue"] = (0, row(), "")
    assert [job.label for job in desk.listing().views] == ["slurm:4711"]
    desk.act(JobAct.CANCEL, ["slurm:4711"])
    played.answers["squeue"] = (0, row(State="CANCELLED"), "")
    assert [job.state for job in desk.listing().views] == [JobState.CANCELLED]


def test_names_with_separators_escapes_and_newlines_break_no_list(
    slurm: SlurmCluster, played: Played
) -> None:
    played.answers["squeue"] = (0, row(Name="a|b\x1b[2J\x1fc") + row(JobID="4712"), "")
    found = [job.id for job in slurm.jobs(0.0)]
    assert found == ["4711", "4712"]
    text = slurm.preview(submission(name="a\nb\x1b|c"))
    assert re.search(r"'--job-name=a b .c'", text)


# A folder of outputs that others may write to.


def test_a_note_of_another_user_is_no_job(
    desk: ClusterDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir(mode=0o777)
    task = task_of(submission(), "slurm", str(logs), str(tmp_path))
    write_note(RunNote("4711", task, "kqzvmtra", str(tmp_path / "none"), "a", time.time()))
    assert [job.id for job in jobs_of(desk)] == ["4711"]
    anothers(monkeypatch, logs / "4711.run")
    assert jobs_of(desk) == []
