"""An upgrade beneath running processes: what they start is found, wherever its code is by then."""

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from andon.jobs.folder import END, JobsFolder
from tests.conftest import REPOSITORY
from tests.integration.queueing import cleaned, dispatcher_pid, kill_dispatcher, settle
from tests.support.archives import unpack
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.cold]
BEFORE = "9e9e4d48"
SOURCE = REPOSITORY / "src" / "andon"


def source_of(commit: str) -> bytes:
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=REPOSITORY, capture_output=True)
    if packed.returncode != 0:
        pytest.skip(f"commit {commit} is not in this clone: fetch the whole history")
    return packed.stdout


def has_ended(folder: JobsFolder, number: int) -> bool:
    """Looks at the files alone: a command about jobs would start a dispatcher."""
    return (folder.attempt(number, 1) / END).exists()


def test_jobs_start_and_end_while_andon_is_upgraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, go = tmp_path / "site", tmp_path / "go"
    with tarfile.open(fileobj=io.BytesIO(source_of(BEFORE))) as archive:
        unpack(archive, tmp_path / "before")
    (tmp_path / "before" / "src").rename(site)
    monkeypatch.setenv("PYTHONPATH", str(site))
    folder = settle(monkeypatch, tmp_path, idle="1h")

    def submit(*words: str) -> int:
        command = [sys.executable, "-P", "-m", "andon", "submit", "--simulate", "4", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return int(done.stdout)

    with cleaned(folder):
        long = submit("--", "sh", "-c", f"until [ -e {go} ]; do sleep 0.1; done")
        wait_for(lambda: (folder.attempt(long, 1) / "claim").exists())
        old = dispatcher_pid(folder)
        shutil.rmtree(site / "andon")
        # The dispatcher may write its bytecode again meanwhile.
        left_out = shutil.ignore_patterns("static", "__pycache__")
        shutil.copytree(SOURCE, site / "andon", ignore=left_out, dirs_exist_ok=True)
        new = submit("--", "true")
        wait_for(lambda: has_ended(folder, new))
        assert dispatcher_pid(folder) == old, "the dispatcher of before started it"
        after = submit("--after", str(long), "--", "true")
        assert kill_dispatcher(folder)
        go.touch()
        wait_for(lambda: has_ended(folder, after))
        assert dispatcher_pid(folder) not in (None, old), "the supervisor of before started it"
