"""A cluster's job begins on its node: it is recorded, and its command runs whatever fails."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from andon.jobs.clusters.run_notes import note_of, recorded_job
from andon.jobs.rules.cluster_task import task_of
from andon.jobs.rules.metrics import parse_metric
from andon.model.job.cluster import ClusterTask, NoteFolder
from andon.model.job.desk import Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from andon.model.job.spec import JobSpec, dumps, loads
from andon.model.shapes import to_json
from andon.runs.files import read_ends
from andon.standalone import STANDALONE
from andon.version import __version__
from tests.support.homes import own_folders

pytestmark = pytest.mark.process
SCRIPT = STANDALONE / "cluster_start.py"


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in own_folders(tmp_path).items():
        monkeypatch.setenv(name, value)


def started(
    folder: Path,
    *command: str,
    job: str = "7_3",
    version: str = __version__,
    flags: str = "-P",
    stderr: Any = subprocess.PIPE,
) -> "subprocess.CompletedProcess[str]":
    (folder / "notes").mkdir(exist_ok=True)
    notes, runs = str(folder / "notes"), str(folder / "runs")
    task = ClusterTask("lab", "a1b2", "train a", notes, runs, 5.0, 1, ("night",), quiet=True)
    words = [sys.executable, flags, str(SCRIPT), version, dumps(to_json(task)), job, *command]
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=stderr, text=True)


@pytest.mark.parametrize(
    ("script", "code", "state"),
    [
        ("echo out", 0, JobState.SUCCEEDED),
        ("echo out; exit 5", 5, JobState.FAILED),
        ("echo out; kill -KILL $$", 137, JobState.FAILED),
        ("echo out; kill -TERM $PPID; sleep 9", 143, JobState.CANCELLED),
    ],
)
def test_how_a_short_job_ended_is_in_its_record(
    tmp_path: Path, script: str, code: int, state: JobState
) -> None:
    done = started(tmp_path, "sh", "-c", script)
    assert (done.returncode, done.stdout) == (code, "out\n")
    note = note_of(NoteFolder(str(tmp_path / "notes")), "7_3")
    assert note is not None
    job = recorded_job(note)
    assert (job.state, job.signal) == (state, code - 128 if code > 128 else None)
    fold = read_ends(Path(note.record), 0).fold
    assert fold.begin is not None
    assert (fold.begin.id, fold.begin.group, fold.begin.tags) == (note.run, "lab:7", ("night",))
    assert fold.begin.params == {"job": "lab:7_3"}
    assert fold.end is not None
    assert Path(note.record).parent == tmp_path / "runs"


def test_its_command_knows_its_run_and_a_port_of_its_own(tmp_path: Path) -> None:
    done = started(tmp_path, "sh", "-c", "echo $ANDON_RUN $ANDON_RECORD $MASTER_PORT", job="8")
    run, record, port = done.stdout.split()
    note = note_of(NoteFolder(str(tmp_path / "notes")), "8")
    assert note is not None
    assert (note.run, note.record) == (run, record)
    assert int(port) > 0


def test_a_record_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    done = started(tmp_path, "sh", "-c", "echo out; exit 5")
    assert (done.returncode, done.stdout) == (5, "out\n")
    assert "the run is not recorded" in done.stderr


@pytest.mark.parametrize(("name", "code"), [("no-such-program", 127), ("/etc/passwd", 126)])
def test_a_command_that_cannot_be_started_ends_as_in_a_shell(
    tmp_path: Path, name: str, code: int
) -> None:
    for version in (__version__, "0.0.0"):  # recorded, and alone
        done = started(tmp_path, name, version=version)
        assert (done.returncode, name in done.stderr) == (code, True)


def test_a_node_with_another_andon_or_a_part_of_one_runs_the_command(tmp_path: Path) -> None:
    for why, options in {
        "it has another version": {"version": "0.0.0"},
        "No module named 'msgspec'": {"flags": "-PS"},
    }.items():
        done = started(tmp_path, "sh", "-c", "echo out; exit 5", **options)
        assert (done.returncode, done.stdout) == (5, "out\n")
        assert f"does not have the andon that submitted it ({why})" in done.stderr


@pytest.mark.parametrize("version", [__version__, "0.0.0"])
def test_a_job_runs_although_nothing_can_be_said_about_it(tmp_path: Path, version: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = started(tmp_path, "sh", "-c", "echo out; exit 5", version=version, stderr=full)
    assert (done.returncode, done.stdout) == (5, "out\n")


def test_figures_that_a_job_prints_are_recorded_and_end_a_hopeless_one(tmp_path: Path) -> None:
    metrics = dict([parse_metric(r"loss=([\d.]+)")])
    more: dict[str, Any] = {"metrics": metrics, "stop_when": "loss>2"}
    job = JobSpec(1, "train", ("sh",), "/", DeviceRequest(), 5.0, **more)
    runs = tmp_path / "state" / "andon" / "runs"
    task = task_of(Submission("a1b2", job), "lab", str(tmp_path), str(runs))
    words = [sys.executable, "-P", str(SCRIPT), __version__]
    command = ["sh", "-c", "echo loss=1.5; echo loss=3; exec sleep 60"]
    with (tmp_path / "8.out").open("wb") as output:
        done = subprocess.run(
            [*words, dumps(to_json(task)), "8", *command], stdout=output, stderr=subprocess.STDOUT
        )
    said = (tmp_path / "8.out").read_text()
    assert done.returncode == 143, said
    assert "cancelled: loss is 3, > 2: stopping the command" in said
    note = note_of(NoteFolder(str(tmp_path)), "8")
    assert note is not None
    assert recorded_job(note).state is JobState.CANCELLED
    lines = list(map(loads, Path(note.record).read_text().splitlines()))
    assert [line["values"]["loss"] for line in lines if line["event"] == "log"] == [1.5, 3.0]
    assert [line for line in lines if line.get("name") == "cancelled: loss is 3, > 2"]
