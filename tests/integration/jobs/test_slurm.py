"""Jobs on a real Slurm of two nodes with four GPUs each, which no driver knows."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from andon.clusters.slurm import SlurmCluster
from andon.jobs.clusters.desk import ClusterDesk
from andon.ports import Cluster
from andon.settings.clusters import ClusterSettings
from andon.testing.cluster_contract import ClusterContract
from tests.integration.parts import wait_until
from tests.integration.slurm import Login, Slurm
from tests.support.desk_contract import DeskContract, RefusingContract

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def configured(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.configuration))


class TestSlurm(ClusterContract):
    @pytest.fixture
    def reopen(self, slurm: Slurm, tmp_path: Path) -> Iterator[Callable[[], Cluster]]:
        self._slurm = slurm
        settings = ClusterSettings("slurm", "slurm", 3.0, {"logs": str(tmp_path / "logs")})
        yield lambda: SlurmCluster(settings)
        slurm("scancel", "--quiet", "--user=root")
        wait_until(lambda: not slurm("squeue", "-h"), "the end of its jobs")

    def away(self) -> AbstractContextManager[object]:
        return self._slurm.without_controller()

    @contextmanager
    def slow(self) -> Iterator[None]:
        controller = self._slurm.daemons["slurmctld"]
        controller.send_signal(signal.SIGSTOP)
        try:  # until the thread that gets it has run, the others still answer
            wait_until(lambda: _state(controller.pid) == "T", "its stop")
            yield
        finally:
            controller.send_signal(signal.SIGCONT)


class TestSlurmDesk(DeskContract, RefusingContract):
    def word(self, text: str) -> str:
        return f"slurm:{text}"

    @pytest.fixture
    def desk(self, slurm: Slurm, state_folder: Path, tmp_path: Path) -> Iterator[ClusterDesk]:
        settings = ClusterSettings("slurm", "slurm", 10.0, {"logs": str(tmp_path / "logs")})
        yield ClusterDesk("slurm", 10.0, lambda: SlurmCluster(settings))
        slurm("scancel", "--quiet", "--user=root")
        wait_until(lambda: not slurm("squeue", "-h"), "the end of its jobs")


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_what_the_workers_did_after_the_collector_was_killed_is_not_done_again(
    login: Login,
) -> None:
    (login.folder / "items").write_text("".join(f"{number}\n" for number in range(6)))
    begun = login.folder / "begun"
    words = ("map", "--on", "slurm", "--gpus", "2", "--keep-order", "--items", "items")
    run = ("--", "sh", "-c", f'echo "$0" >> {begun}; sleep 0.5; test -e fixed || test "$0" != 3')
    with subprocess.Popen(
        [sys.executable, "-m", "andon", *words, *run],
        env=login.variables, cwd=login.folder, stderr=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        wait_until(begun.exists, "the first item")
        running.kill()
    wait_until(lambda: not login.slurm("squeue", "-h"), "the workers")
    assert sorted(begun.read_text().split()) == list("012345")
    (login.folder / "fixed").touch()
    again = login.done(*words, "--resume", "last", *run)
    assert again.returncode == 0, again.stderr
    assert "1 of 1 items done" in again.stderr
    assert sorted(begun.read_text().split()) == list("0123345")
    assert "nothing is left to do" in login.done(*words, "--resume", "last", *run).stderr


def test_after_ctrl_c_the_workers_finish_what_they_have_begun(login: Login) -> None:
    (login.folder / "items").write_text("".join(f"{number}\n" for number in range(20)))
    begun = login.folder / "begun"
    words = ("map", "--on", "slurm", "--gpus", "2", "--items", "items", "--", "sh", "-c",
             f'echo "$0" >> {begun}; sleep 2; echo "$0"')  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "andon", *words], env=login.variables, cwd=login.folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        wait_until(lambda: begun.exists() and len(begun.read_text().split()) >= 2, "two items")
        running.send_signal(signal.SIGINT)
        printed, said = running.communicate()
    assert running.returncode == 130, said
    assert sorted(printed.split()) == sorted(begun.read_text().split())
    assert f"{20 - len(printed.split())} not begun" in said
    assert "to continue: the same command with --resume" in said


def test_the_blocks_of_a_worker_that_is_killed_are_done_by_the_others(login: Login) -> None:
    (login.folder / "items").write_text("".join(f"{number}\n" for number in range(12)))
    begun = login.folder / "begun"
    words = ("map", "--on", "slurm", "--gpus", "2", "--keep-order", "--items", "items", "--", "sh",
             "-c", f'echo $PPID >> {begun}; sleep 1; echo "$0" done')  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "andon", *words],
        env=login.variables, cwd=login.folder, stdout=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        wait_until(lambda: begun.exists() and len(set(begun.read_text().split())) == 2, "both")
        os.kill(int(begun.read_text().split()[0]), signal.SIGKILL)
        assert running.stdout is not None
        printed = running.stdout.read()
    assert printed == "".join(f"{number} done\n" for number in range(12))
    assert running.returncode == 0
