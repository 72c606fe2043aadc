"""The jobs of a file as they are queued: once where unique, with container and commit."""

import json
import os
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from andon.jobs.file import read_job_file, specs_of, submissions_of
from andon.jobs.folder import open_jobs_folder
from andon.jobs.git_commit import GitCommitLookup
from andon.jobs.queue import Queue
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.rules.file import jobs_in
from andon.model.execution import ContainerOptions
from andon.model.job.facts import JobNote
from andon.work.containers.rules.options import options_from_json
from tests.support.replaced import answers

UNIQUE = {
    "once.toml": """
[[job]]
name = "prepare"
command = "make data"
unique = true
[[job]]
name = "train"
command = "make"
after = "prepare"
""",
    "once.json": json.dumps(
        {
            "job": [
                {"name": "prepare", "command": "make data", "unique": True},
                {"name": "train", "command": "make", "after": "prepare"},
            ]
        }
    ),
}


@pytest.mark.process  # git
def test_a_unique_job_of_a_file_is_queued_once(tmp_path: Path) -> None:
    folder, desk = open_jobs_folder(), QueueDesk()
    folder.pause()
    made = []
    for name, text in UNIQUE.items():
        path = tmp_path / name
        path.write_text(text)
        jobs = read_job_file(str(path))
        made.append(desk.submit([one for job in jobs for one in submissions_of(job, tmp_path)]))
    assert [[one.is_new for one in jobs] for jobs in made] == [[True, True], [False, True]]
    assert [one.label for some in made for one in some] == ["1", "2", "1", "3"]
    assert Queue().jobs[3].spec.after == (1,), "the one that was there already"
    folder.note(1, "cancelled", JobNote(1, 1.0))
    assert desk.submit(submissions_of(jobs[0], tmp_path))[0].is_new, "it has ended"


@pytest.mark.process  # git
def test_an_image_of_a_file_is_the_container_of_its_job(tmp_path: Path) -> None:
    jobs = jobs_in({"command": "x", "image": "trainer:1"}, "f", {})
    (spec,) = specs_of(jobs[0], tmp_path)
    assert options_from_json(spec.container) == ContainerOptions("trainer:1")


@pytest.mark.process
def test_the_commit_is_found_by_a_process_with_many_open_files(tmp_path: Path) -> None:
    """As a server may have: `select` fails over 1023."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "one")):
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1100), hard))
    try:
        question = GitCommitLookup(str(tmp_path))
        low, question._answer = question._answer, os.dup2(question._answer, 1050)
        os.close(low)
        assert len(question.answer() or "") == 40
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.process
def test_the_commit_is_asked_for_where_sigchld_is_ignored(tmp_path: Path) -> None:
    """As whoever started this process may have set it."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert GitCommitLookup(str(tmp_path)).answer() is None
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.slow
def test_a_git_that_is_stuck_in_the_kernel_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def waitpid(pid: int, options: int) -> tuple[int, int]:
        asked.append(options)
        return 0, 0

    question = GitCommitLookup.__new__(GitCommitLookup)
    question._pid = 4711
    question._answer, stuck = os.pipe()
    answers(monkeypatch, os, "kill", None)
    monkeypatch.setattr(os, "waitpid", waitpid)
    assert question.answer() is None
    assert set(asked) == {os.WNOHANG}
    os.close(stuck)
