"""Commands of a person on a login node of a real Slurm, who has configured nothing.

It has a Slurm of its own: one whose controller was restarted gives jobs no devices for a while.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import need
from tests.integration.parts import need_root, wait_until
from tests.integration.slurm import Slurm, slurm_cluster


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    need_root()
    need("slurmctld", "slurmd", "sbatch", "munged")
    with slurm_cluster(tmp_path_factory.mktemp("slurm"), nodes=2, gpus=4) as found:
        yield found


@pytest.fixture(autouse=True)
def configured(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.configuration))


@pytest.fixture
def home(slurm: Slurm, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The variables of a person on a login node, who has configured nothing."""
    yield {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"),
           "ANDON_LEASE_DIR": str(tmp_path / "leases")}  # fmt: skip
    slurm("scancel", "--quiet", "--user=root")
    wait_until(lambda: not slurm("squeue", "-h"), "the end of its jobs")


def test_one_command_for_here_and_there(home: dict[str, str], tmp_path: Path) -> None:
    def andon(*words: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "andon", *words]
        done = subprocess.run(command, env=home, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    script = "echo element $ANDON_ARRAY_INDEX on GPU $CUDA_VISIBLE_DEVICES; sleep 1000"
    array = andon("submit", "--on", "slurm", "--for", "2h", "--array", "3-5%2", "--", "sh", "-c",
                  script).strip()  # fmt: skip
    whole = andon("submit", "--on", "slurm", "--gpus", "4", "--", "sleep", "1000").strip()
    more = andon("submit", "--on", "slurm", "--gpus", "4", "--name", "late", "--", "true").strip()
    wait_until(lambda: andon("jobs", "--json").count('"state":"running"') == 3, "three that run")
    shown = andon("jobs")
    assert re.search(r"n[12] GPU [0-3] ", shown)
    assert re.search(r"n[12] GPU 0-3 ", shown)
    assert "at most 2 of its tasks run at once (%2)" in shown
    short = "needs 4 GPUs on one node: n[12] has 2 free, n[12] 0"
    assert re.search(short, andon("why", more))
    printed = re.compile("element 3 on GPU [0-3]\n")
    wait_until(lambda: printed.fullmatch(andon("logs", f"{array}_3")), "its output")
    nodes = [line.split()[:5] for line in andon("nodes", "--on", "slurm").splitlines()[1:]]
    assert [node[0] for node in nodes] == ["n1", "n2"]
    assert sorted(node[1:] for node in nodes) == [["4", "a100", "2", "2"], ["4", "a100", "4", "0"]]
    andon("cancel", array, whole)
    andon("jobs", "wait", more)
    assert andon("run", "--on", "slurm", "--", "sh", "-c", "echo here") == "here\n"
    andon("run", "--on", "slurm", "--", "sh", "-c", "exit 7", code=7)
    andon("run", "--on", "slurm", "--", "no-such-program", code=127)
    refused = andon("submit", "--on", "slurm", "--gpus", "99", "--", "true", code=2)
    assert "Requested node configuration is not available" in refused


def test_a_controller_that_is_away_costs_a_line(
    slurm: Slurm, home: dict[str, str], tmp_path: Path
) -> None:
    def andon(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "andon", *words]
        return subprocess.run(command, env=home, cwd=tmp_path, capture_output=True, text=True)

    job = andon("submit", "--on", "slurm", "--", "sleep", "1000").stdout.strip()
    wait_until(lambda: "running" in andon("jobs").stdout, "the job")
    with slurm.without_controller():
        wait_until(lambda: "does not answer" in andon("jobs").stdout, "the line")
        assert job in andon("jobs").stdout
        refused = andon("submit", "--on", "slurm", "--", "true")
        assert refused.returncode != 0
        assert "Slurm's controller does not answer" in refused.stderr
    wait_until(lambda: "does not answer" not in andon("jobs").stdout, "its answer")
    assert "running" in andon("jobs").stdout
