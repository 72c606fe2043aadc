"""Processes of a real Docker engine, a real Slurm, real namespaces: whose are they said to be?"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.host.processes.containers import ContainerNames
from andon.host.processes.facts import FOREIGN, HIDDEN, ProcessTable
from andon.model.device import Process
from tests.conftest import need
from tests.integration.conftest import andon
from tests.integration.parts import Docker, need_root, remove_cgroups, wait_until
from tests.integration.slurm import Slurm, slurm_cluster
from tests.standin import StandIn, StandInProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(params=["proctrack/cgroup", "proctrack/linuxproc"], scope="module")
def slurm(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Slurm]:
    need("slurmctld", "slurmd", "srun", "munged")
    need_root()
    proctrack = str(request.param)
    if proctrack == "proctrack/cgroup" and not Path("/sys/fs/cgroup/freezer").is_dir():
        pytest.skip("without systemd, Slurm tracks processes only in cgroups of version 1")
    task = "task/cgroup" if proctrack == "proctrack/cgroup" else "task/none"
    with slurm_cluster(tmp_path_factory.mktemp("slurm"), proctrack, task) as cluster:
        yield cluster


def one(pid: int, names: ContainerNames) -> Process:
    """The process as soon as its files were read; a loaded machine may need a second look."""
    table = ProcessTable(names=names)
    wait_until(lambda: table.attribute([Process(pid)])[0].name is not None, "its name")
    (found,) = table.attribute([Process(pid)])
    return found


def named(pid: int, docker: Docker, name: str) -> Process:
    """The process as soon as the engine has named its container; a slow machine takes its time."""
    names = ContainerNames(sockets={"docker": [docker.socket]})
    wait_until(lambda: one(pid, names).container == name, name)
    return one(pid, names)


def silent() -> ContainerNames:
    return ContainerNames(sockets={})


def test_a_process_in_docker_is_known_by_the_containers_id(docker: Docker) -> None:
    with docker.running("by-id") as (number, pid):
        found = one(pid, silent())
    assert found.container == f"docker:{number[:12]}"
    assert found.command == "/bin/sleep 600"


def test_a_process_in_docker_is_known_by_the_containers_name(docker: Docker) -> None:
    with docker.running("trainer") as (_, pid):
        assert named(pid, docker, "docker:trainer").name == "sleep"


def test_kubernetes_labels_name_a_pods_container(docker: Docker) -> None:
    """As cri-dockerd starts it: its labels, and the pod's folder above it."""
    uid = "2c48913c-b29f-11e7-9350-020968147796"
    labels = {"pod.name": "trainer-0", "pod.namespace": "ml", "container.name": "main"}
    options = [f"--label=io.kubernetes.{name}={value}" for name, value in labels.items()]
    parent = f"--cgroup-parent=/kubepods/burstable/pod{uid}"
    try:
        with docker.running("k8s_main_trainer-0", parent, *options) as (number, pid):
            assert one(pid, silent()).container == f"k8s:{uid}/{number[:12]}"
            assert named(pid, docker, "k8s:ml/trainer-0/main").name == "sleep"
    finally:
        remove_cgroups("kubepods")


def test_an_engine_that_is_stopped_costs_only_the_name(docker: Docker, tmp_path: Path) -> None:
    gone = ContainerNames(sockets={"docker": [str(tmp_path / "no.sock")]})
    with docker.running("nameless") as (number, pid):
        assert one(pid, gone).container == f"docker:{number[:12]}"


def test_a_container_below_a_slurm_step_tells_both(docker: Docker) -> None:
    parent = f"slurm_test{os.getpid()}"
    try:
        with docker.running("nested", f"--cgroup-parent=/{parent}/uid_0/job_42/step_0") as (_, pid):
            assert named(pid, docker, "container:nested").job == "slurm:42.0"
    finally:
        remove_cgroups(parent)


def test_ps_shows_a_container_by_name_and_finds_it_by_id(
    docker: Docker, node: StandIn, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    (kernel / "run").mkdir()
    (kernel / "run/docker.sock").symlink_to(docker.socket)
    with docker.running("seen-by-ps") as (number, pid):
        node.change(0, processes=(StandInProcess(pid), StandInProcess(os.getpid())))
        wait_until(lambda: "docker:seen-by-ps" in andon("ps", "--csv").out, "the name")
        by_id = andon("ps", "--json", "--container", number[:8]).json()["processes"]
        tree = andon("ps", "--tree").out
    assert [p["pid"] for p in by_id] == [pid]
    assert f" {os.getpid()} " in tree


def test_a_step_of_slurm_is_told(slurm: Slurm, tmp_path: Path) -> None:
    with slurm.running(tmp_path / "step", "srun", "--overcommit") as (job, pid):
        assert one(pid, silent()).job == f"slurm:{job}.0"


def test_a_batch_script_of_slurm_is_told(slurm: Slurm, tmp_path: Path) -> None:
    with slurm.running(tmp_path / "batch", "sbatch", "--output=/dev/null") as (job, pid):
        assert one(pid, silent()).job == f"slurm:{job}.batch"


ASK = """
import json, os, sys
from andon.host.processes.facts import ProcessTable
from andon.model.device import Process
ProcessTable().attribute([Process(os.getpid())])  # whatever is imported, as root
if len(sys.argv) > 2:
    os.setgroups([])
    os.setgid(int(sys.argv[2]))  # hidepid spares the group that it was mounted for, 0
    os.setuid(int(sys.argv[2]))
table = ProcessTable()
(found,) = table.attribute([Process(int(sys.argv[1]))])
print(json.dumps([found.name, table.note]))
"""


def ask_within(*namespace: str, arguments: list[str]) -> list[str | None]:
    command = [*namespace, sys.executable, "-c", ASK, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answer: list[str | None] = json.loads(done.stdout)
    return answer


def test_within_a_real_pid_namespace_the_hosts_pids_are_said_to_be_that() -> None:
    need("unshare")
    need_root()
    namespace = ("unshare", "--pid", "--fork", "--mount-proc")
    assert ask_within(*namespace, arguments=["1"]) == [None, FOREIGN], "pid 1 there is another"
    assert ask_within(*namespace, arguments=[str(os.getpid())]) == [None, FOREIGN]


def test_a_real_hidepid_is_told() -> None:
    need("unshare")
    need_root()
    mount = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
    namespace = ("unshare", "--mount", "sh", "-c", mount, "sh")
    assert ask_within(*namespace, arguments=[str(os.getpid()), "65534"]) == [None, HIDDEN]
    assert ask_within(*namespace, arguments=[str(os.getpid())])[1] is None, "root sees everybody"
