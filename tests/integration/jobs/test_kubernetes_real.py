"""The same contract on a real API server, scheduler and controller manager: `make kubernetes`."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from andon.clusters.kubernetes import KubernetesCluster, transport
from andon.host.rules.unary_call import call_of, message_in
from andon.jobs.clusters.desk import ClusterDesk
from andon.ports import Cluster
from andon.settings.clusters import ClusterSettings
from andon.testing.cluster_contract import ClusterContract
from tests.conftest import REPOSITORY, need
from tests.integration.jobs.kubernetes_person import FakeHub, Person
from tests.integration.parts import wait_until
from tests.integration.serving import make_certificate
from tests.standin.kubernetes.real import FIRST_PORT, RealKubernetes
from tests.standin.kubernetes.standin import write_kubeconfig
from tests.support.desk_contract import DeskContract, RefusingContract
from tests.support.replaced import constants

pytestmark = [pytest.mark.long, pytest.mark.kubernetes, pytest.mark.timeout(600)]
RENDERED = REPOSITORY / "deploy/kubernetes/andon.yaml"
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


@pytest.fixture
def in_a_pod(
    real: RealKubernetes, certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Cluster]]:
    """The cluster as its pods see it; what a test leaves there is removed."""
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


class TestRealKubernetes(ClusterContract):
    @pytest.fixture
    def reopen(
        self, real: RealKubernetes, in_a_pod: Callable[[], Cluster]
    ) -> Callable[[], Cluster]:
        self._real = real
        return in_a_pod

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


class TestRealKubernetesDesk(DeskContract, RefusingContract):
    one_node = 2

    def word(self, text: str) -> str:
        return f"k8s:{text}"

    @pytest.fixture
    def desk(self, in_a_pod: Callable[[], Cluster], state_folder: Path) -> ClusterDesk:
        return ClusterDesk("k8s", 10.0, in_a_pod)


class Administrator:
    """Someone with kubectl and all rights."""

    def __init__(self, real: RealKubernetes, folder: Path, certificate: Path) -> None:
        self.config = write_kubeconfig(folder / "kubeconfig", real.url, certificate)

    def kubectl(self, *words: str, given: str = "", code: int = 0) -> str:
        done = subprocess.run(
            ["kubectl", *words], input=given, capture_output=True, text=True, timeout=120,
            env={**os.environ, "KUBECONFIG": str(self.config)},
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def admin(
    real: RealKubernetes, certificate: Path, tmp_path_factory: pytest.TempPathFactory
) -> Administrator:
    need("kubectl")
    return Administrator(real, tmp_path_factory.mktemp("admin"), certificate)


def test_the_rendered_chart_is_taken_and_gives_no_other_rights(admin: Administrator) -> None:
    objects = [one for one in yaml.safe_load_all(RENDERED.read_text()) if one]
    newer = [one for one in objects if one["apiVersion"] == "policy/v1"]  # of 1.21
    taken = [one for one in objects if one not in newer]
    assert [one["kind"] for one in newer] == ["PodDisruptionBudget"]
    admin.kubectl("create", "namespace", "andon")
    given = yaml.safe_dump_all(taken)
    for how in (["--dry-run=server"], []):
        said = admin.kubectl("apply", *how, "-f", "-", given=given)
        assert len(said.splitlines()) == len(taken)
    may = {
        ("andon-hub", "list", "nodes", "default"): True,
        ("andon-hub", "watch", "pods", "kube-system"): True,
        ("andon-hub", "create", "jobs.batch", "default"): True,
        ("andon-hub", "create", "jobs.batch", "kube-system"): False,
        ("andon-hub", "get", "secrets", "andon"): False,
        ("andon-hub", "delete", "pods", "default"): False,
        ("andon-agent", "list", "nodes", "default"): False,
        ("andon-agent", "get", "pods", "andon"): False,
        ("andon-agent", "get", "secrets", "andon"): False,
    }
    for (account, verb, what, where), allowed in may.items():
        words = ("auth", "can-i", verb, what, "-n", where)
        who = f"--as=system:serviceaccount:andon:{account}"
        answer = admin.kubectl(*words, who, code=0 if allowed else 1).split()
        assert answer[-1] == ("yes" if allowed else "no"), (account, verb, what)


def test_the_session_of_a_person(admin: Administrator, tmp_path: Path) -> None:
    person = Person(tmp_path, admin.config, FakeHub())
    first, second = person.andon("nodes", "--on", "k8s").stdout.splitlines()[1:]
    assert (first.split()[0], second.split()[0]) == ("g1", "g2")
    there = ("--on", "k8s", "--image", "x")
    done = person.andon("submit", *there, "--", "sh", "-c", "echo begun; sleep 1; echo done")
    job = done.stdout.strip()
    assert "prefers g" in done.stderr
    assert person.andon("logs", job, "-f").stdout == "begun\ndone\n"
    (row,) = [o for o in json.loads(person.andon("jobs", "--json").stdout)["jobs"] if o["run"]]
    assert (row["label"], row["state"], row["exit_code"]) == (job, "succeeded", 0)
    (record,) = json.loads(person.andon("runs", "--json").stdout)["runs"]
    assert (record["id"], record["exit_code"]) == (row["run"], 0)
    waits = person.andon("submit", *there, "--gpus", "8", "--", "true").stdout.strip()
    wait_until(lambda: "no node has 8 GPUs" in person.andon("why", waits).stdout, "its reason")
    person.andon("cancel", waits)
    assert "cancelled" in person.andon("jobs").stdout
    served = person.andon("submit", *there, "--kind", "deployment", "--", "sleep", "999")
    name = served.stdout.strip()

    def state() -> str:
        rows = json.loads(person.andon("jobs", "--json").stdout)["jobs"]
        return "".join(one["state"] for one in rows if one["label"] == name)

    assert state() in ("waiting", "running")
    wait_until(lambda: state() == "running", "its pod")
    person.andon("cancel", name)
    wait_until(lambda: state() in ("", "cancelled"), "its end")
    code = person.andon("run", *there, "--", "sh", "-c", "echo here; exit 3", code=3)
    assert code.stdout == "here\n"


def test_a_call_made_by_hand_is_answered_by_the_grpc_of_kubelets(real: RealKubernetes) -> None:
    """etcd has the same library; what it is asked for has its version."""
    with socket.create_connection(("127.0.0.1", FIRST_PORT + 1), 10) as etcd:
        etcd.sendall(call_of("/etcdserverpb.Maintenance/Status"))
        received = bytearray()
        while (answer := message_in(received)) is None:
            received += etcd.recv(1 << 16) or pytest.fail("no answer")
    assert b"\x12\x063." in answer
