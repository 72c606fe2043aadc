"""Jobs on a real Slurm of two nodes with four GPUs each, which no driver knows."""

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from andon.clusters.slurm import SlurmCluster
from andon.jobs.clusters import kept
from andon.ports import Cluster
from andon.settings.clusters import ClusterSettings
from andon.testing.cluster_contract import ClusterContract
from tests.integration.parts import wait_until
from tests.integration.slurm import Slurm

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def configured(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(slurm.configuration))


class TestSlurm(ClusterContract):
    @pytest.fixture
    def reopen(
        self, slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Callable[[], Cluster]]:
        self._slurm = slurm
        monkeypatch.setattr(kept, "is_fresh", lambda *_: False)  # it asks each time
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
        try:
            yield
        finally:
            controller.send_signal(signal.SIGCONT)
