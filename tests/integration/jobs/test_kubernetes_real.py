"""The same contract on a real API server, scheduler and controller manager: `make kubernetes`."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from andon.clusters.kubernetes import KubernetesCluster, transport
from andon.ports import Cluster
from andon.settings.clusters import ClusterSettings
from andon.testing.cluster_contract import ClusterContract
from tests.integration.parts import wait_until
from tests.integration.serving import make_certificate
from tests.standin.kubernetes.real import RealKubernetes
from tests.support.replaced import constants

pytestmark = [pytest.mark.long, pytest.mark.kubernetes, pytest.mark.timeout(600)]
SETTINGS = ClusterSettings("k8s", "k8s", 10.0, {"image": "busybox"})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("certificate"))[0]


@pytest.fixture(scope="module")
def real(certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealKubernetes]:
    found = RealKubernetes(tmp_path_factory.mktemp("kubernetes"), certificate)
    try:
        found.start()
        found.node("g1", 2)
        found.node("g2", 1)
        yield found
    finally:
        found.close()


class TestRealKubernetes(ClusterContract):
    has_arrays = False
    has_dependencies = False

    @pytest.fixture
    def reopen(
        self,
        real: RealKubernetes,
        certificate: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[Callable[[], Cluster]]:
        self._real = real
        files = {"token": "secret", "namespace": "default", "ca.crt": certificate.read_text()}
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        constants(monkeypatch, transport, ACCOUNT=tmp_path)
        monkeypatch.setenv(transport.HOST, "127.0.0.1")
        monkeypatch.setenv(transport.PORT, str(real.port))
        yield lambda: KubernetesCluster(SETTINGS)
        jobs, pods = (
            f"/{group}/namespaces/default/{plural}"
            for group, plural in (("apis/batch/v1", "jobs"), ("api/v1", "pods"))
        )
        for path in (jobs, pods):
            real.ask("DELETE", path, {"propagationPolicy": "Background"})
        wait_until(
            lambda: not any(real.ask("GET", path)["items"] for path in (jobs, pods)),
            "the end of its pods",
        )

    @contextmanager
    def away(self) -> Iterator[None]:
        self._real.stop_api()
        try:
            yield
        finally:
            self._real.start_api()

    @contextmanager
    def slow(self) -> Iterator[None]:
        api = self._real.daemons["kube-apiserver"]
        api.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            api.send_signal(signal.SIGCONT)
