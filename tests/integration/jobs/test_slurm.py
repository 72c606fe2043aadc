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
from andon.ports import Cluster
from andon.settings.clusters import ClusterSettings
from andon.testing.cluster_contract import ClusterContract
from tests.integration.parts import wait_until
from tests.integration.slurm import Login, Slurm

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


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


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
