"""Jobs on the stand-in of a cluster of two nodes, from inside it and by the real kubectl."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from andon.clusters.kubernetes import KubernetesCluster, transport
from andon.model.job.desk import Submission
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from andon.model.job.spec import JobSpec
from andon.ports import Cluster
from andon.settings.clusters import ClusterSettings
from andon.testing.cluster_contract import ClusterContract
from tests.conftest import need
from tests.integration.parts import wait_until
from tests.integration.serving import make_certificate
from tests.standin.kubernetes.standin import KubernetesStandin
from tests.support.replaced import constants

SETTINGS = ClusterSettings("k8s", "k8s", 3.0, {"image": "busybox"})


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("certificate"))[0]


@pytest.fixture(scope="module")
def standin(certificate: Path) -> Iterator[KubernetesStandin]:
    found = KubernetesStandin(certificate=certificate)
    found.node("g1", 2)
    found.node("g2", 1)
    yield found
    found.close()


@pytest.fixture
def inside(
    standin: KubernetesStandin, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KubernetesStandin]:
    """The stand-in, as a pod of it sees it."""
    constants(monkeypatch, transport, ACCOUNT=standin.account(tmp_path, certificate))
    monkeypatch.setenv(transport.HOST, "127.0.0.1")
    monkeypatch.setenv(transport.PORT, standin.api.url.rpartition(":")[2])
    yield standin
    for kind in ("jobs", "pods"):
        for one in standin.objects.select(kind, "default"):
            standin.objects.remove(kind, "default", one["metadata"]["name"])


class TestKubernetes(ClusterContract):
    @pytest.fixture
    def reopen(self, inside: KubernetesStandin) -> Callable[[], Cluster]:
        self._cluster = inside
        return lambda: KubernetesCluster(SETTINGS)

    def away(self) -> AbstractContextManager[object]:
        return self._cluster.api.fault(away=True)

    def slow(self) -> AbstractContextManager[object]:
        return self._cluster.api.fault(slow_seconds=3.5)


def test_kubectl_takes_a_job_from_its_manifest_to_its_end(
    standin: KubernetesStandin, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("kubectl")
    monkeypatch.setenv("KUBECONFIG", str(standin.kubeconfig(tmp_path, certificate)))
    cluster = KubernetesCluster(ClusterSettings("k8s", "k8s", 60.0, {"image": "busybox"}))
    spec = JobSpec(
        1, "by kubectl", ("sh", "-c", "echo out; exit 3"), "/", DeviceRequest(), time.time()
    )
    job = cluster.submit(Submission("tkubectl", spec))
    assert job == "default/andon-tkubectl"
    wait_until(lambda: cluster.jobs(0.0)[0].state.is_settled, "its end")
    (ended,) = cluster.jobs(0.0)
    assert (ended.state, ended.exit_code, ended.name) == (JobState.FAILED, 3, "by kubectl")
    assert cluster.log(job, None, 100).text == "out\n"
