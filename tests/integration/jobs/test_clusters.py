"""Clusters of another package, driven by the real commands: submit, list, follow, cancel."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from andon.testing.fake_cluster import FakeCluster, PlayedNode
from tests.integration.queueing import cleaned, settle
from tests.support.old_notes import age_notes
from tests.support.third_party import installed
from tests.support.waiting import wait_for

PATIENCE_SECONDS = 60.0
AGES = re.compile(r"\(\d+ s\)")  # of the jobs that have the GPUs: those differ from look to look


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory)


class Lab:
    """Two clusters in folders, the settings that name them, and commands that see them."""

    def __init__(self, site: Path, folder: Path) -> None:
        nodes = (PlayedNode("n1", 2, "H100"), PlayedNode("n2", 1, "A100"))
        self.lab = FakeCluster.make(folder / "lab", *nodes, now=time.time())
        self.real = FakeCluster.make(folder / "real", *nodes)
        self.file = folder / "andon.toml"
        self.configure("")
        self._env = {
            **os.environ,
            "PYTHONPATH": str(site),
            "ANDON_CONFIG": str(self.file),
        }
        self._folder = folder

    def configure(self, more: str) -> None:
        lab, real = self.file.parent / "lab", self.file.parent / "real"
        self.file.write_text(
            f"{more}\n"
            f'[clusters.lab]\nkind = "counting-house"\nfolder = "{lab}"\ntimeout = 2\n'
            f'[clusters.desk]\nkind = "counting-desk"\nfolder = "{real}"\n'
            f'[clusters.real]\nkind = "counting-house"\nfolder = "{real}"\n'
        )

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "andon.cli", *arguments],
            env={**self._env, **env}, cwd=self._folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def andon(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        with self.start(*arguments, **env) as process:
            try:
                out, err = process.communicate(timeout=60)
            finally:
                process.kill()
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def fine(self, *arguments: str, **env: str) -> str:
        done = self.andon(*arguments, **env)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def lab(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    with cleaned(settle(monkeypatch, tmp_path)):
        yield Lab(site, tmp_path)


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def test_a_job_is_submitted_listed_explained_followed_and_cancelled(lab: Lab) -> None:
    train = "echo hello; sleep 60; echo bye; exit 3"
    assert lab.fine("submit", "--on", "lab", "--name", "train", "--", "sh", "-c", train) == (
        "lab:4711\n"
    )
    assert lab.fine("submit", "--on", "lab", "--gpus", "2", "--array", "0-1%1", "--", "sleep",
                    "100") == "lab:4712\n"  # fmt: skip
    listed = lab.fine("jobs")
    head, first, second, third = listed.splitlines()
    assert head.split() == ["JOB", "NAME", "STATE", "WHERE", "GPUS", "TIME", "WHY"]
    assert first.split()[:7] == ["lab:4711", "train", "running", "n1", "GPU", "0", "1"]
    assert second.split()[:5] == ["lab:4712_0", "sleep", "waiting", "main", "2"]
    assert "needs 2 GPUs on one node: n1 has 1 free, n2 1" in second
    assert third.startswith("lab:4712_1")
    told = lab.fine("why", "lab:4712_0")
    assert told.startswith("job lab:4712_0 sleep: waiting\n  in main\n  needs 2 GPUs")
    assert AGES.sub("(N s)", lab.fine("why", "--job", "lab:4712_0")) == AGES.sub("(N s)", told)
    assert "use --gpus 1" in lab.fine("jobs", "show", "lab:4712_0")
    waits = lab.andon("logs", "lab:4712_0")
    assert "job lab:4712_0 has not started: it is waiting: needs 2 GPUs" in waits.stderr
    assert "none of these 2 jobs has printed anything" in lab.andon("logs", "lab:4712").stderr
    assert lab.fine("logs", "lab:4711") == "hello\n"
    assert "n1    2 H100          1     1" in lab.fine("nodes", "--on", "lab")
    done = lab.andon("cancel", "lab:4712", "lab:99")
    assert (done.returncode, "there is no job 99" in done.stderr) == (5, True)
    lab.lab.advance(60)
    assert lab.fine("logs", "lab:4711", "-f") == "hello\nbye\n"
    assert lab.andon("jobs", "wait", "lab:4711").returncode == 3
    states = [row["state"] for row in json.loads(lab.fine("jobs", "--json"))["jobs"]]
    assert states == ["failed", "cancelled", "cancelled"]
    shown = lab.fine("jobs", "show", "lab:4711")
    assert "exit code 3" in shown
    assert "sh -c" in shown


def test_jobs_of_this_machine_and_of_clusters_are_one_list(lab: Lab) -> None:
    number = lab.fine("submit", "--simulate", "1", "--", "true").strip()
    lab.fine("jobs", "wait", number)
    lab.fine("submit", "--on", "lab", "--", "sleep", "9")
    here, there = json.loads(lab.fine("jobs", "--json"))["jobs"]
    assert (here["label"], here["engine"], here["engine_id"]) == (number, None, None)
    assert (there["label"], there["engine"], there["engine_id"]) == ("lab:4711", "lab", "4711")
    assert there["where"] == "n1 GPU 0"
    assert [line.split()[0] for line in lab.fine("jobs").splitlines()] == [
        "JOB", number, "lab:4711",
    ]  # fmt: skip
    assert lab.fine("jobs", "--state", "running").splitlines()[1].startswith("lab:4711")


def test_a_sweep_is_a_group_of_jobs_there(lab: Lab) -> None:
    made = lab.fine("submit", "--on", "lab", "--param", "n=98,99", "--name", "tune", "--",
                    "sleep", "{n}")  # fmt: skip
    assert made == "lab:4711\nlab:4712\n"
    listed = json.loads(lab.fine("jobs", "--group", "tune", "--json"))["jobs"]
    assert [job["params"] for job in listed] == [{"n": "98"}, {"n": "99"}]
    lab.fine("cancel", "tune")
    states = [job["state"] for job in json.loads(lab.fine("jobs", "--json"))["jobs"]]
    assert states == ["cancelled", "cancelled"]
    wrong = lab.andon("submit", "--on", "lab", "--param", "n=1,2", "--metric", "a=(b)", "--",
                      "sleep", "{n}")  # fmt: skip
    assert "no andon runs inside its jobs" in wrong.stderr


def test_a_cluster_that_is_away_costs_a_line(lab: Lab) -> None:
    lab.fine("submit", "--on", "lab", "--", "sleep", "9")
    lab.fine("jobs")
    lab.lab.break_(away="connection refused")
    lab.fine("submit", "--on", "real", "--", "true")
    done = lab.andon("submit", "--on", "lab", "--", "true")
    assert done.returncode == 3
    assert "lab: connection refused" in done.stderr
    until(lambda: "(connection refused); its jobs are as of" in lab.fine("jobs"))
    *_, row, last = lab.fine("jobs").splitlines()
    assert row.startswith(("lab:", "real:"))
    assert last.startswith("– lab: no answer for ")
    states = {
        one["name"]: one["trouble"] for one in json.loads(lab.fine("jobs", "--json"))["clusters"]
    }
    assert states == {"lab": "connection refused", "desk": None, "real": None}


def test_a_cluster_that_hangs_costs_its_time_limit(lab: Lab) -> None:
    lab.fine("submit", "--on", "real", "--", "sleep", "100")
    lab.lab.break_(slow=60)
    listed = lab.fine("jobs")
    assert "real:4711" in listed
    assert "– lab: no answer within 2 s; its jobs are not known" in listed


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_submission_that_is_killed_is_not_lost_and_not_doubled(lab: Lab, when: str) -> None:
    lab.lab.break_(dies=when)
    done = lab.andon("submit", "--on", "lab", "--name", "train", "--", "sleep", "9")
    assert done.returncode == -signal.SIGKILL
    lab.lab.break_()
    if when == "before":
        (job,) = json.loads(lab.fine("jobs", "--json"))["jobs"]
        unsure = (job["state"], job["reason"])  # its request may be on its way
        assert unsure == ("waiting", "lab has not confirmed it yet")
    age_notes()
    (job,) = json.loads(lab.fine("jobs", "--json"))["jobs"]
    if when == "after":
        assert (job["label"], job["state"]) == ("lab:4711", "running")
    else:
        assert (job["name"], job["state"]) == ("train", "lost")
        assert job["reason"] == "it did not reach lab: submit it again"
    assert len(lab.lab.jobs(0.0)) == (when == "after")


def test_what_is_run_there_has_its_output_and_exit_code_here(lab: Lab) -> None:
    done = lab.andon("run", "--on", "real", "--", "sh", "-c", "echo out; sleep 0.3; exit 5")
    assert (done.returncode, done.stdout) == (5, "out\n")
    assert "running as real:4711" in done.stderr
    done = lab.andon("run", "--on", "desk", "--", "sh", "-c", "echo here; exit 4")
    assert (done.returncode, done.stdout) == (4, "here\n")


def test_ctrl_c_ends_what_is_run_there(lab: Lab) -> None:
    with lab.start("run", "--on", "real", "--", "sh", "-c", "echo begun; sleep 1000") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    (job,) = lab.real.jobs(0.0)
    assert job.state == "cancelled"


def test_a_map_makes_a_job_of_each_call_and_collects_the_outputs(lab: Lab) -> None:
    items = lab.file.parent / "items.txt"
    items.write_text("one\ntwo\nthree\n")
    done = lab.andon(
        "map", "--on", "real", "--items", str(items), "--keep-order", "--", "sh", "-c",
        "echo {item}-{index}; sleep 0.2",
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "one-0\ntwo-1\nthree-2\n"), done.stderr
    assert "3 of 3 items done" in done.stderr
    assert len(lab.real.jobs(0.0)) == 3
    done = lab.andon(
        "map", "--on", "real", "--items", str(items), "--retries", "1", "--", "sh", "-c", "exit 2"
    )
    assert done.returncode == 1
    assert done.stderr.count("exit code 2; it is tried again") == 3
    assert "0 of 3 items done" in done.stderr
    assert len(lab.real.jobs(0.0)) == 3 + 6
    done = lab.andon("map", "--on", "real", "--items", str(items), "--worker", "--", "true")
    assert (done.returncode, "--worker is for a map on this machine" in done.stderr) == (125, True)


def test_a_map_of_jobs_is_recorded_resumed_and_measured_as_here(lab: Lab) -> None:
    items = lab.file.parent / "items.txt"
    items.write_text("0\n3\n0\n")
    on = ("map", "--on", "real", "--items", str(items))
    done = lab.andon(*on, "--", "sh", "-c", "echo {index}; exit {item}")
    assert (done.returncode, sorted(done.stdout.split())) == (1, ["0", "1", "2"]), done.stderr
    assert "2 of 3 items done" in done.stderr
    (run,) = json.loads(lab.fine("runs", "--json"))["runs"]
    lines = [json.loads(line) for line in Path(run["path"]).read_text().splitlines()]
    assert (lines[0]["kind"], lines[-1]["state"]) == ("map", "failed")
    ended = {
        one["index"]: one for one in lines if one["event"] == "item" and one["state"] != "start"
    }
    assert {index: one["state"] for index, one in ended.items()} == {0: "ok", 1: "failed", 2: "ok"}
    assert {one["device"].partition(":")[0] for one in ended.values()} <= {"n1", "n2"}
    again = lab.andon(*on, "--resume", "last", "--", "sh", "-c", "echo {index}; exit {item}")
    assert (again.returncode, again.stdout) == (1, "1\n"), again.stderr
    assert f"to continue: the same command with --resume {run['id']}" in done.stderr
    items.write_text("0\n0\n0\n0\n")
    measured = lab.andon(*on, "--scaling", "1,2", "--", "sh", "-c", "exit {item}")
    rows = [row.split()[0] for row in measured.stdout.splitlines()]
    assert (measured.returncode, rows[:3]) == (0, ["WORKERS", "1", "2"]), measured.stderr


def test_after_ctrl_c_the_jobs_of_a_map_that_wait_are_withdrawn(lab: Lab) -> None:
    items = lab.file.parent / "items.txt"
    items.write_text("".join(f"{number}\n" for number in range(5)))  # on three GPUs
    with lab.start("map", "--on", "lab", "--items", str(items), "--", "sh", "-c",
                   "echo {item}; sleep 60") as process:  # fmt: skip
        wait_for(lambda: len(lab.lab.jobs(0.0)) == 5)
        process.send_signal(signal.SIGINT)
        wait_for(lambda: sum(job.state == "cancelled" for job in lab.lab.jobs(0.0)) == 2)
        lab.lab.advance(61)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, sorted(out.split())) == (130, ["0", "1", "2"]), err
    assert "3 of 5 items done" in err
    assert "2 not begun" in err


def test_submit_can_wait_for_the_end(lab: Lab) -> None:
    done = lab.andon("submit", "--on", "real", "--wait", "--", "sh", "-c", "exit 7")
    assert (done.returncode, done.stdout) == (7, "real:4711\n")
    assert "job real:4711 failed: exit code 7" in done.stderr


def test_the_setting_decides_unless_the_command_line_does(lab: Lab) -> None:
    lab.configure('[jobs]\non = "lab"\n')
    assert lab.fine("submit", "--", "true") == "lab:4711\n"
    assert lab.fine("submit", "--on", "here", "--simulate", "1", "--", "true") == "1\n"
    assert lab.fine("submit", "--simulate", "1", "--", "true") == "2\n"
    assert lab.fine("submit", "--", "true", ANDON_JOBS_ON="real") == "real:4711\n"


def test_a_job_file_names_its_cluster(lab: Lab) -> None:
    file = lab.file.parent / "jobs.toml"
    file.write_text(
        'on = "lab"\n[[job]]\nname = "first"\ncommand = ["sleep", "9"]\n'
        '[[job]]\nname = "second"\ncommand = ["true"]\nafter = "first"\n'
        '[[job]]\nname = "here"\non = "here"\nsimulate = 1\ncommand = ["true"]\n'
    )
    assert "would queue" in lab.fine("submit", "--dry-run", str(file))
    assert lab.lab.jobs(0.0) == []
    assert lab.fine("submit", str(file)) == "1\nlab:4711\nlab:4712\n"
    _, second = lab.lab.jobs(0.0)
    assert (second.state, second.reason) == ("waiting", "after job 4711")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("submit", "--on", "nowhere", "--", "true"), "no cluster is named nowhere"),
        (("submit", "--on", "lab", "--unique", "--", "true"), "--unique is for jobs on this"),
        (("submit", "--on", "lab", "--after", "3", "--", "true"), "can wait only for jobs there"),
        (("submit", "--on", "lab", "--gpus", "9", "--", "true"), "no node has 9 GPUs"),
        (("submit", "--on", "lab", "--simulate", "1", "--", "true"), "are on this machine"),
        (("submit", "--engine-option", "x", "--", "true"), "is for jobs on a cluster"),
        (("jobs", "hold", "lab:4711"), "is a job of a cluster"),
        (("jobs", "move", "lab:4711", "--first"), "is a job of a cluster"),
        (("logs", "lab:9", "--attempt", "1"), "--attempt is for jobs on this machine"),
        (("nodes",), "nodes needs a hub"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(lab: Lab, arguments: tuple[str, ...], words: str) -> None:
    done = lab.andon(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert lab.lab.jobs(0.0) == []


@pytest.mark.parametrize("command", [("logs",), ("why",), ("jobs", "show"), ("jobs", "wait")])
def test_an_unknown_job_is_gone(lab: Lab, command: tuple[str, ...]) -> None:
    done = lab.andon(*command, "lab:99")
    assert done.returncode == 5
    assert "99" in done.stderr


def test_settings_that_cannot_be_read_cost_a_line_of_the_list(lab: Lab) -> None:
    lab.file.write_text("[clusters.lab]\nkind = 3\n")
    assert "– clusters are not known: " in lab.fine("jobs")


def test_a_package_that_was_removed_costs_a_line_too(lab: Lab) -> None:
    lab.file.write_text('[clusters.lab]\nkind = "gone"\n')
    assert "unknown kind of cluster: gone" in lab.fine("jobs")
