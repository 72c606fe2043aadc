"""What a submission is in Slurm's words, and what Slurm's answers mean."""

import os
import shlex
import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from andon.clusters.slurm import SlurmCluster
from andon.clusters.slurm.rules import answers, commands, reasons
from andon.clusters.slurm.rules.answers import SEPARATOR
from andon.clusters.slurm.rules.commands import SameAndon, SlurmOptions
from andon.errors import Invalid
from andon.jobs.clusters.desk import ClusterDesk
from andon.jobs.rules.able import refuse
from andon.jobs.rules.cluster_task import task_of
from andon.model.job.cluster import ClusterTask
from andon.model.job.desk import Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from andon.model.job.spec import Checkpoint, JobSpec
from andon.settings.clusters import ClusterSettings
from andon.standalone import STANDALONE

AT = 1_794_919_219.0
INSTALLED = SameAndon("/nowhere/python", "/nowhere/start.py", "0.0.0", "x86_64")


def submission(job: dict[str, Any] | None = None, **more: Any) -> Submission:
    spec = JobSpec(0, "train", ("python", "train.py", "a b"), "/home/a", DeviceRequest(), AT)
    return Submission("a1b2", replace(spec, **job or {}), **more)


def asked(**request: Any) -> dict[str, Any]:
    return {"request": DeviceRequest(**request)}


@pytest.mark.parametrize("odd", ["1?singleton", "1,after:2", "1:2", "", "x", "-1", "1_", "١"])
def test_an_id_that_is_more_than_an_id_is_not_passed_on(odd: str) -> None:
    for one in (submission(after=(odd,)), submission(after_any=(odd,))):
        with pytest.raises(Invalid, match="is no id of a job of Slurm"):
            arguments(one)


def arguments(one: Submission, **options: Any) -> list[str]:
    return commands.sbatch_arguments(one, SlurmOptions(**options), "/logs", None)


def task(one: Submission, **options: Any) -> ClusterTask:
    more = commands.task_options(one, SlurmOptions(**options))
    return task_of(one, "slurm", "/logs", "/runs", **more)


def scripted(one: Submission, installed: SameAndon = INSTALLED) -> str:
    return commands.batch_script(one, task(one), installed)


def ran(script: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["sh"], input=script, capture_output=True, text=True, check=True)


# What is submitted.


def test_a_plain_job_is_these_words() -> None:
    assert arguments(submission()) == [
        "--parsable", "--job-name=train", "--comment=andon:a1b2", "--chdir=/home/a", "--nodes=1",
        "--gpus-per-node=1", "--output=/logs/%j.out", "--open-mode=append", "--no-requeue",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (submission(asked(least=2, most=2, models=("A100",))), ["--gpus-per-node=a100:2"]),
        (submission({"for_seconds": 7200.0}), ["--time=2:00:00"]),
        (submission({"for_seconds": 0.4}), ["--time=0:00:01"]),
        (submission({"retry_lost": True}), ["--requeue"]),
        (submission({"checkpoint": Checkpoint("USR1", 90.0)}), ["--signal=B:USR1@90"]),
        (submission(indices=(3, 4, 5, 7)), ["--array=3-5,7", "--output=/logs/%A_%a.out"]),
        (submission(indices=(0, 1), limit=1), ["--array=0-1%1"]),
        (
            submission(after=("1", "2_3"), after_any=("4",)),
            ["--dependency=afterok:1:2_3,afterany:4", "--kill-on-invalid-dep=yes"],
        ),
        (submission({"name": "a\nb\x1b[31m"}), ["--job-name=a b [31m"]),
        (submission(options=("--mem=64G", "-p", )), ["--mem=64G", "-p"]),
    ],
)  # fmt: skip
def test_what_slurm_has_is_translated(given: Submission, words: list[str]) -> None:
    assert set(words) <= set(arguments(given))


def test_the_options_of_the_settings_come_before_those_of_the_job() -> None:
    found = arguments(
        submission(options=("--qos=now",)), partition="gpu", qos="low", options=("--mem=1G",)
    )
    assert found.index("--partition=gpu") < found.index("--mem=1G") < found.index("--qos=now")
    assert "--qos=low" in found


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (submission(asked(memory_bytes=1 << 30)), "--memory"),
        (submission(asked(shared=True)), "--shared"),
        (submission(asked(devices=("0",))), "--device"),
        (submission(asked(least=1, most=4)), "a range"),
        (submission(asked(every=True)), "--gpus all"),
        (submission(asked(models=("a", "b"))), "several models"),
        (submission(asked(priority=3)), "--priority"),
        (submission({"retries": 1}), "--retries"),
        (submission({"timeout_seconds": 5.0}), "--timeout"),
        (submission({"container": {"image": "x"}}), "--image"),
        (submission({"bind": True}), "--bind"),
    ],
)
def test_what_slurm_has_not_is_refused_with_what_to_use(given: Submission, named: str) -> None:
    desk = ClusterDesk("slurm", 1.0, lambda: SlurmCluster(ClusterSettings("slurm", "slurm")))
    with pytest.raises(Invalid, match=named) as caught:
        refuse(desk, [given])
    assert caught.value.hint


@pytest.mark.parametrize(
    "word", ["--comment=x", "-J", "--array=1", "-o/x", "--wrap=x", "train.sh", "--mem=1\n--wrap=x"]
)
def test_options_that_say_what_andon_says_are_refused(word: str) -> None:
    with pytest.raises(Invalid):
        arguments(submission(options=(word,)))
    with pytest.raises(Invalid):
        commands.read_options(ClusterSettings("slurm", "slurm", 10.0, {"options": [word]}))


@pytest.mark.parametrize(
    "options",
    [{"queue": "x"}, {"partition": 5}, {"partition": "a\nb"}, {"on_busy": "wait"},
     {"options": "--mem=1G"}, {"options": [5]}],
)  # fmt: skip
def test_wrong_settings_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as caught:
        commands.read_options(ClusterSettings("slurm", "slurm", 10.0, options))
    assert next(iter(options)) in caught.value.reason


def test_the_script_keeps_every_word_as_it_is() -> None:
    words = ("echo", "a b", "$HOME", "`id`", "'\"", "END", "")
    script = scripted(submission({"argv": words, "umask": 0o077}))
    assert "umask 0077\n" in script
    (line,) = [line for line in script.splitlines() if line.startswith("set -- ")]
    assert shlex.split(line)[2:] == list(words)


@pytest.mark.process
def test_the_node_is_asked_for_the_same_andon_and_runs_the_command_without_it() -> None:
    found = ran(scripted(submission({"argv": ("echo", "plain")})))
    assert found.stdout == "plain\n"
    assert found.stderr.startswith("andon: no record of this job: ")
    assert INSTALLED.python in found.stderr
    script = str(STANDALONE / "cluster_start.py")
    here = SameAndon(sys.executable, script, "0.0.0", os.uname().machine)
    found = ran(scripted(submission({"argv": ("echo", "plain")}), here))
    assert found.stdout == "plain\n"
    assert "it has another version" in found.stderr
    other = replace(here, machine="abacus")
    assert ran(scripted(submission({"argv": ("echo", "plain")}), other)).stdout == "plain\n"


def test_a_process_for_each_gpu_is_a_step_of_as_many_tasks() -> None:
    two = submission(asked(least=2, most=2), per_gpu=1)
    assert "--ntasks=2" in arguments(two)
    (line,) = [one for one in scripted(two).splitlines() if one.startswith("exec srun ")]
    assert "--ntasks=2 --gpus-per-task=1" in line
    assert "--gpu-bind=single:3" in scripted(submission(per_gpu=3))


def test_a_job_is_given_back_only_if_the_settings_say_so() -> None:
    assert task(submission()).if_busy == ""
    line = task(submission(), on_busy="requeue").if_busy
    assert "scontrol requeue $SLURM_JOB_ID" in line
    assert line.endswith("ExcNodeList=$SLURMD_NODENAME Requeue=0")
    kept = task(submission({"retry_lost": True}), on_busy="requeue").if_busy
    assert kept.endswith("ExcNodeList=$SLURMD_NODENAME")


def test_the_preview_can_be_pasted_whatever_the_command_holds() -> None:
    given = submission({"argv": ("echo", "END\nEND_")})
    text = commands.preview(given, arguments(given), scripted(given))
    end = text.rstrip("\n").rpartition("\n")[2]
    assert f"<<'{end}'" in text
    assert text.count(f"\n{end}\n") == 1


def test_a_job_at_the_terminal_takes_no_array_and_waits_for_nothing() -> None:
    command = commands.srun_command(submission(), SlurmOptions(), task(submission()), INSTALLED)
    assert command[-3:] == ["python", "train.py", "a b"]
    for one in (submission(indices=(1,)), submission(after=("1",)), submission({"begin_at": AT})):
        with pytest.raises(Invalid):
            commands.srun_command(one, SlurmOptions(), task(one), INSTALLED)


# What Slurm answers.


def row(**values: str) -> str:
    usual = {
        "JobID": "8", "ArrayJobID": "8", "ArrayTaskID": "N/A", "State": "RUNNING",
        "UserName": "root", "SubmitTime": "1794919219", "StartTime": "1794919220",
        "EndTime": "1794919243", "tres-per-job": "N/A", "tres-per-node": "gres:gpu:a100:2",
        "NodeList": "n1", "Partition": "all", "Reason": "None", "Dependency": "",
        "TimeLimit": "1:30:00", "exit_code": "0", "Comment": "andon:a1b2", "Name": "train",
    }  # fmt: skip
    return SEPARATOR.join((usual | {k.replace("_per_", "-per-"): v for k, v in values.items()})
                          [name] for name in answers.JOB_FIELDS) + SEPARATOR + "\n"  # fmt: skip


@pytest.mark.parametrize("code", ["None", "", "Dependency"])
@pytest.mark.parametrize(
    ("dependency", "reason"),
    [
        ("afterok:7(unfulfilled)", "after job 7"),
        ("afterok:7_3(unfulfilled),afterany:12(unfulfilled)", "after jobs 7_3, 12"),
        ("singleton(unfulfilled)", ""),
    ],
)
def test_a_waiting_job_names_those_that_it_comes_after(
    code: str, dependency: str, reason: str
) -> None:
    (one,) = answers.parse_jobs(row(State="PENDING", Reason=code, Dependency=dependency))
    assert one.job.reason == (reason or reasons.reason_of(code).text)


def test_other_reasons_come_before_the_jobs_that_it_comes_after() -> None:
    waits = row(State="PENDING", Reason="JobHeldUser", Dependency="afterok:7(unfulfilled)")
    assert answers.parse_jobs(waits)[0].job.reason == "its owner holds it"


def test_a_running_job_has_its_node_gpus_and_limit() -> None:
    (one,) = answers.parse_jobs(row())
    job = one.job
    assert (job.id, job.state, job.gpus, job.where) == ("8", JobState.RUNNING, 2, "n1")
    assert (job.label, job.started, job.ended, job.for_seconds) == (
        "a1b2", 1_794_919_220.0, None, 5400.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "state", "code", "signal"),
    [
        ({"State": "COMPLETED"}, JobState.SUCCEEDED, 0, None),
        ({"State": "FAILED", "exit_code": "768"}, JobState.FAILED, 3, None),
        ({"State": "FAILED", "exit_code": "3:0"}, JobState.FAILED, 3, None),
        ({"State": "FAILED", "exit_code": "9"}, JobState.FAILED, None, 9),
        ({"State": "TIMEOUT", "exit_code": "15"}, JobState.TIMED_OUT, None, 15),
        ({"State": "CANCELLED", "exit_code": "15"}, JobState.CANCELLED, None, 15),
        ({"State": "NODE_FAIL"}, JobState.LOST, None, None),
        ({"State": "OUT_OF_MEMORY", "exit_code": "0:125"}, JobState.FAILED, None, 125),
        ({"State": "PREEMPTED"}, JobState.CANCELLED, None, None),
    ],
)
def test_how_a_job_ended(
    values: dict[str, str], state: JobState, code: int | None, signal: int | None
) -> None:
    (one,) = answers.parse_jobs(row(**values))
    assert (one.job.state, one.job.exit_code, one.job.signal) == (state, code, signal)
    assert one.job.ended == 1_794_919_243.0
    assert (one.job.reason is None) is (state is JobState.SUCCEEDED)


@pytest.mark.parametrize(
    ("reason", "state"),
    [("Resources", JobState.WAITING), ("JobHeldUser", JobState.HELD),
     ("BeginTime", JobState.LATER)],
)  # fmt: skip
def test_why_a_job_waits(reason: str, state: JobState) -> None:
    values = {"State": "PENDING", "Reason": reason, "NodeList": "", "StartTime": "N/A"}
    (one,) = answers.parse_jobs(row(**values))
    assert (one.job.state, one.job.started, one.job.where) == (state, None, "all")
    assert one.job.reason == reasons.WAITING[reason].text


def test_a_start_in_a_year_is_not_expected() -> None:
    values = {"State": "PENDING", "Reason": "Resources", "NodeList": "", "StartTime": "1826455220"}
    (one,) = answers.parse_jobs(row(**values))
    assert one.job.expected_start is None


def test_an_element_of_an_array_is_named_by_its_index() -> None:
    (one,) = answers.parse_jobs(row(JobID="11", ArrayJobID="2", ArrayTaskID="4"))
    assert (one.number, one.job.id, one.job.array, one.job.array_index) == ("11", "2_4", "2", 4)


@pytest.mark.parametrize(
    "text", ["", "\n\n", "slurm_load_jobs error", "a\x1fb\n", row(State="NEWLY_INVENTED"),
             row(SubmitTime="N/A")],
)  # fmt: skip
def test_what_is_no_job_is_left_out(text: str) -> None:
    assert answers.parse_jobs(text) == []


def test_a_name_may_hold_anything_and_a_foreign_comment_is_no_label() -> None:
    (one,) = answers.parse_jobs(row(Name="a|b\x1fc", Comment="andon:../../x y"))
    assert one.job.name.startswith("a|b")
    assert one.job.label is None


def test_devices_are_those_of_the_node_and_not_of_a_count() -> None:
    line = (
        "JobId=1 JobName=x NumNodes=1 NumCPUs=1   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:a100:2(IDX:0-1)"
        " MinCPUsNode=1"
    )
    assert answers.parse_devices(f"scontrol: show job 1\n{line}\n") == {"1": "n1 GPU 0-1"}
    assert answers.parse_devices("JobId=2 NumNodes=1 Nodes=n1 GRES=(null)") == {}


def test_nodes_are_counted_once_and_those_that_take_no_jobs_have_nothing_free() -> None:
    def node(*values: str) -> str:
        return SEPARATOR.join(values) + SEPARATOR + "\n"

    text = (
        node("n2", "drained*", "gpu:a100:4(S:0-1)", "gpu:a100:0(IDX:N/A)", "bad fan")
        + node("n1", "mixed", "gpu:a100:4", "gpu:a100:3(IDX:0-2)", "none") * 2
        + node("n3", "idle", "(null)", "gpu:0", "none")
    )
    n1, n2 = answers.parse_nodes(text)
    assert (n1.gpus, n1.allocated, n1.free, n1.model, n1.usable) == (4, 3, 1, "a100", True)
    assert (n2.name, n2.state, n2.usable, n2.free, n2.note) == (
        "n2",
        "drained",
        False,
        0,
        "bad fan",
    )


def test_when_running_jobs_must_end_is_read() -> None:
    jobs = answers.parse_jobs(
        row(State="RUNNING", NodeList="n1", EndTime=f"{AT + 600:.0f}")
        + row(State="RUNNING", JobID="9", NodeList="n1", EndTime=f"{AT + 365 * 86_400:.0f}")
        + row(State="COMPLETING", JobID="10", NodeList="n1", EndTime=f"{AT + 1:.0f}")
        + row(JobID="11", State="PENDING", EndTime=f"{AT + 600:.0f}")
    )
    found = answers.holders_on("n1", jobs)
    assert [(one.name, one.gpus, one.until) for one in found] == [
        ("8", 2, AT + 600), ("9", 2, None), ("10", 2, None)
    ]  # fmt: skip
    assert answers.holders_on("n2", jobs) == ()


def test_every_code_has_a_sentence_and_an_unknown_one_is_quoted() -> None:
    assert len(reasons.WAITING) >= 38
    assert all(words.text and words.text[-1] != "." for words in reasons.WAITING.values())
    assert reasons.reason_of("ReqNodeNotAvail, UnavailableNodes:n1").text.startswith("a node")
    assert reasons.reason_of("Brandnew").text == "Slurm says 'Brandnew'"


def test_ended_jobs_of_sacct() -> None:
    values = (
        "4711_7", "CANCELLED by 1000", "ana", "1794919219", "1794919220", "1794919243",
        "billing=1,gres/gpu=2,node=1", "n1", "all", "0:15", "andon:a1b2", "train",
    )  # fmt: skip
    (job,) = answers.parse_past(SEPARATOR.join(values) + "\n")
    assert (job.id, job.array, job.array_index, job.gpus) == ("4711_7", "4711", 7, 2)
    assert (job.state, job.reason) == (JobState.CANCELLED, "cancelled by user 1000")
    running = SEPARATOR.join((values[0], "RUNNING", *values[2:])) + "\n"
    assert answers.parse_past(running) == []
